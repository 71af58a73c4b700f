"""Kill -9 at random instants: tables and outbound records equal those of an undisturbed run."""

import pytest

from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.bench.chaos.run import run_chaos


@pytest.mark.long
def test_a_killed_job_leaves_the_same_tables_and_records_as_an_undisturbed_one(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        result = run_chaos(tmp_path / "jobs", kafka.bootstrap_servers, messages=4000, kills=3)

    assert result.findings == []
    assert result.kills == 3
    assert result.rows["dead_letters"] > 1000
    assert result.rows["messages"] == 4000
    assert result.rows["queue_contents"] > 1000
    assert result.redriven > 100


@pytest.mark.long
def test_consumers_on_four_lanes_settle_once_through_kills(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        result = run_chaos(tmp_path / "jobs", kafka.bootstrap_servers, 3000, kills=2, lanes=4)

    assert result.findings == []
    assert result.kills == 2
    assert result.rows["messages"] == 3000
