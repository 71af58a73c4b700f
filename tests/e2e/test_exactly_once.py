"""Kill -9 at random instants: tables and outbound records equal those of an undisturbed run."""

import os

import pytest

from streaming.embedded.cluster import LocalCluster, can_isolate
from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.bench.chaos.cluster import Strikes
from tests.bench.chaos.run import run_chaos, run_killed, run_undisturbed

MESSAGES = 4_000


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A log, and what an undisturbed job made of it."""
    root = tmp_path_factory.mktemp("chaos")
    with EmbeddedKafka(root / "kafka") as kafka:
        yield run_undisturbed(root / "jobs", kafka.bootstrap_servers, MESSAGES)


@pytest.mark.long
def test_a_killed_job_leaves_the_same_tables_and_records_as_an_undisturbed_one(undisturbed):
    result = run_killed(undisturbed, kills=2)

    assert result.findings == []
    assert result.kills == 2
    assert result.rows["dead_letters"] > 1000
    assert result.rows["messages"] == MESSAGES
    assert result.rows["queue_contents"] > 1000
    assert result.redriven > 100


@pytest.mark.long
def test_a_cluster_that_loses_an_executor_and_its_driver_leaves_the_same(undisturbed, tmp_path):
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")
    hidden = [undisturbed.root, undisturbed.root.parent / "kafka"]
    with LocalCluster(tmp_path, hidden=hidden) as cluster:
        strikes = Strikes(cluster, kinds=("executor", "driver"))
        result = run_killed(
            undisturbed,
            kills=2,
            name="cluster",
            cluster=cluster,
            strike=strikes.strike,
            always_progress=True,
        )

    assert result.findings == []
    assert result.kills == 2
    assert strikes.done == {"executor": 1, "driver": 1}


@pytest.mark.long
def test_consumers_on_four_lanes_settle_once_through_kills(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        result = run_chaos(tmp_path / "jobs", kafka.bootstrap_servers, 3000, kills=2, lanes=4)

    assert result.findings == []
    assert result.kills == 2
    assert result.rows["messages"] == 3000
