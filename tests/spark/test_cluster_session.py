"""A session on a Spark cluster: executors without our code get it, and say what they have."""

import json
import os
import subprocess
import sys

import pytest

from tests.bench.chaos.cluster import CHECKOUT, can_isolate

PROGRAM = """
import json, sys
from pathlib import Path
from streaming.demo.show import CLUSTER_PROPERTIES
from streaming.embedded.spark_cluster import SparkCluster
from streaming.spark.executor_check import ExecutorsError, check_executors, facts_of_driver
from streaming.spark.session import SessionConfig, make_session, stop_session
from tests.bench.chaos.cluster import CHECKOUT, with_empty

root = Path(sys.argv[1])
with SparkCluster(root / "spark", workers=0) as cluster:
    for _ in range(2):
        cluster.add_worker(with_empty([CHECKOUT / "streaming", CHECKOUT / "topology"]))
    config = SessionConfig(
        work_dir=root / "work", log_dir=root / "logs", master=cluster.master,
        shuffle_partitions=2, properties=CLUSTER_PROPERTIES,
    )
    spark = make_session(config)
    try:
        driver = facts_of_driver(spark)
        found = check_executors(spark, driver)
        report = {"same": [each.facts == driver for each in found]}
        try:
            check_executors(spark, driver._replace(python="2.7.18"))
        except ExecutorsError as refused:
            report["refused"] = str(refused)
    finally:
        stop_session(spark)
print(json.dumps(report))
"""


@pytest.mark.long
def test_executors_that_share_no_code_with_the_driver_run_its_code_or_are_refused(tmp_path):
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
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
