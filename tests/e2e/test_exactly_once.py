"""Kill -9 at random instants: tables and outbound records equal those of an undisturbed run."""

import pytest

from tests.bench.chaos.run import run_chaos


@pytest.mark.long
def test_a_killed_job_leaves_the_same_tables_and_records_as_an_undisturbed_one(
    embedded_kafka, tmp_path
):
    result = run_chaos(tmp_path, embedded_kafka.bootstrap_servers, messages=6000, kills=4)

    assert result.findings == []
    assert result.kills == 4
    assert result.rows["dead_letters"] > 2000
    assert result.rows["messages"] == 6000
    assert result.rows["queue_contents"] > 2000
    assert result.redriven > 300
