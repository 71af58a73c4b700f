"""A cluster without a shared disk: executors get our code, and scenarios end as on the core."""

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
from streaming.embedded.cluster import LocalCluster
from streaming.scenario.document import read_files
from streaming.scenario.play import play
from streaming.simulation.run import PipelineRun, RunPlace
from streaming.spark.executor_check import ExecutorsError, check_executors, facts_of_driver
from streaming.spark.session import make_session, session_config, stop_session

root, servers = Path(sys.argv[1]), sys.argv[2]
scenarios = [one for read in read_files(sys.argv[3:]) for one in read.file.scenarios]
with LocalCluster(root / "cluster", hidden=[root / "logs"]) as cluster:
    config = cluster.config(JobConfig(job=JobSettings(log_dir=str(root / "logs"))))
    spark = make_session(session_config(config, os.environ))
    try:
        driver = facts_of_driver(spark)
        found = check_executors(spark, driver)
        report = {"same": [each.facts == driver for each in found]}
        try:
            check_executors(spark, driver._replace(python="2.7.18"))
        except ExecutorsError as refused:
            report["refused"] = str(refused)
        place = RunPlace(root, servers, root.name, cluster)
        run = PipelineRun(scenarios, "4.0", place)
        run.write_log()
        run.run_job(spark)
        report["scenarios"] = [
            outcome == play(one, "4.0") for one, outcome in zip(scenarios, run.outcomes())
        ]
    finally:
        stop_session(spark)
print(json.dumps(report))
"""


@pytest.mark.long
def test_executors_that_share_no_disk_with_the_driver_run_its_code_or_are_refused(
    tmp_path, embedded_kafka
):
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")
    example = str(CHECKOUT / "examples" / "dead-letter-rejected.json")

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), embedded_kafka.bootstrap_servers, example],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert set(report["same"]) == {True}
    assert "2.7.18" in report["refused"]
    assert "executor_packages" in report["refused"]
    assert report["scenarios"] == [True]
    assert not (tmp_path / "tables").exists()
