"""A small redrive under load, with kills."""

from pathlib import Path

import pytest

from tests.bench.redrive import RedriveLoad, run_redrive


@pytest.mark.nightly  # in every run, jobs and fronts that redrive are killed, and Kafka without
def test_each_letter_moves_once_while_processes_are_killed(tmp_path: Path) -> None:
    report = run_redrive(tmp_path, RedriveLoad(letters=300, kills=3, rate=20, seconds_per_kill=8))

    assert report.problems == []
    assert report.moved == 300
    assert report.acked + report.died == 300
    assert report.died > 0
    assert report.kills == {"client": 1, "job": 1, "kafka": 1}
