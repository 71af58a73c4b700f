"""A cluster whose workers have nothing of the driver's machine: Spark's distribution and a Python.

The packages that tasks import are installed for that Python, or sent along. The Python's path does
not exist for the driver. Checkpoint and tables are in MinIO.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.embedded.cluster import can_isolate

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, os, sys
from pathlib import Path
from streaming.config import JobConfig
from streaming.config.job import JobSettings
from streaming.scenario.document import read_files
from streaming.scenario.play import play
from streaming.simulation.run import PipelineRun, RunPlace
from streaming.spark.executor_check import ExecutorsError, check_executors, facts_of_driver
from streaming.spark.session import make_session, session_config, stop_session
from tests.fixtures.minio import Minio
from tests.fixtures.strangers import Strangers

root, servers, packages = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
scenarios = [one for read in read_files(sys.argv[4:]) for one in read.file.scenarios]

def ran_with(cluster, packages):
    cluster.packages = packages
    config = cluster.config(JobConfig(job=JobSettings(log_dir=str(root / "logs"))))
    spark = make_session(session_config(config, os.environ))
    try:
        driver = facts_of_driver(spark)
        found = [each.facts for each in check_executors(spark, driver)]
        try:
            check_executors(spark, driver._replace(packages={"pyspark": "4.1.0", "numpy": "1.0"}))
        except ExecutorsError as refused:
            refusal = str(refused)
        run = PipelineRun(scenarios, "4.0", RunPlace(root, servers, packages, cluster))
        run.write_log()
        run.run_job(spark)
        return {
            "differences": [driver.differences(each) for each in found],
            "places": found[0].places,
            "is_python_here": Path(config.job.executor_python).exists(),
            "refusal": refusal,
            "scenarios": [
                outcome == play(one, "4.0") for one, outcome in zip(scenarios, run.outcomes())
            ],
        }
    finally:
        stop_session(spark)

with (
    Minio(root / "minio") as store,
    Strangers(root / "cluster", [root / "logs", root / "minio"], store) as cluster,
):
    print(json.dumps(ran_with(cluster, packages)))
"""


@pytest.fixture(scope="module", params=["installed", "shipped"])
def packages(request):
    """The value of `job.executor_packages`."""
    return request.param


@pytest.fixture(scope="module")
def report(tmp_path_factory, embedded_kafka, packages):
    """What the program found."""
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")
    root = tmp_path_factory.mktemp("strangers")
    elsewhere = root / "driver"
    elsewhere.mkdir()
    example = str(CHECKOUT / "examples" / "dead-letter-rejected.json")
    ended = subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM),
            *(str(root), embedded_kafka.bootstrap_servers, packages, example),
        ],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert not (root / "tables").exists()
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.long
def test_executors_that_share_no_file_with_the_driver_play_a_scenario(report, packages):
    assert report["differences"] == [[], []]
    assert report["places"]["pyspark"].endswith("spark-home/python/lib/pyspark.zip")
    assert report["places"]["numpy"].endswith(
        "/site-packages" if packages == "installed" else "/environment"
    )
    assert not report["is_python_here"]
    assert report["scenarios"] == [True]


@pytest.mark.long
def test_executors_with_other_packages_are_refused_with_what_is_left_to_do(report, packages):
    assert "pyspark is 4.2.0 (in " in report["refusal"]
    assert "run workers with Spark 4.1.0" in report["refusal"]
    shipping = 'set job.executor_packages = "shipped"'
    assert (shipping in report["refusal"]) == (packages == "installed")
