"""Kill -9 at random instants: tables and outbound records equal those of an undisturbed run."""

import os
import time

import psutil
import pytest

from streaming.embedded.cluster import can_isolate
from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.bench.chaos.cluster import Strikes
from tests.bench.chaos.log import LogShape
from tests.bench.chaos.run import run_chaos, run_killed, run_undisturbed
from tests.fixtures.minio import Minio
from tests.fixtures.strangers import Strangers

MESSAGES = 4_000
STORE_IS_SILENT_S, KAFKA_IS_SILENT_S = 10, 8


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, kafka):
    """A log, and what an undisturbed job made of it."""
    return run_undisturbed(tmp_path_factory.mktemp("chaos"), kafka.bootstrap_servers, MESSAGES)


@pytest.mark.long
def test_a_killed_job_leaves_the_same_tables_and_records_as_an_undisturbed_one(undisturbed):
    result = run_killed(undisturbed, kills=2)

    assert result.findings == []
    assert result.kills == 2
    assert result.rows["dead_letters"] > 1000
    assert result.rows["messages"] == MESSAGES
    assert result.rows["queue_contents"] > 1000
    assert result.redriven > 100


@pytest.mark.nightly  # in every run, one machine reads that log, and strangers play a scenario
def test_a_cluster_of_strangers_leaves_the_same_through_kills_and_silent_servers(
    undisturbed, kafka, tmp_path
):
    """Two workers that share no file with the driver, and MinIO for checkpoint and tables."""
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")
    hidden = [undisturbed.root, kafka.directory]
    with Minio(tmp_path) as store, Strangers(tmp_path, hidden, store) as cluster:
        strikes = Strikes(cluster, kinds=("executor", "driver"))

        def strike(job, number, chances):
            match number:
                case 0:
                    suspend(store.pid, STORE_IS_SILENT_S)
                case 1:
                    suspend(kafka.pid, KAFKA_IS_SILENT_S)
                case _:
                    return strikes.strike(job, number, chances)
            job.process.check()
            return "answers of a server"

        result = run_killed(
            undisturbed,
            kills=4,
            name="cluster",
            cluster=cluster,
            strike=strike,
            always_progress=True,
        )

    assert result.findings == []
    assert result.kills == 4
    assert strikes.done == {"executor": 1, "driver": 1}


def suspend(pid, seconds):
    process = psutil.Process(pid)
    process.suspend()
    time.sleep(seconds)
    process.resume()


@pytest.mark.nightly  # in every run, the log of the first test has consumers on two lanes
def test_consumers_on_four_lanes_settle_once_through_kills(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        shape = LogShape(partitions=4, lanes=4)
        result = run_chaos(tmp_path / "jobs", kafka.bootstrap_servers, 3000, kills=2, shape=shape)

    assert result.findings == []
    assert result.kills == 2
    assert result.rows["messages"] == 3000
