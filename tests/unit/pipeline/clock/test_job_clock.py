"""The job's time when the wall clock is set back or forward, and when a batch is repeated."""

import json
import logging
import time
from pathlib import Path

import pytest

from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.clock.job_clock import JobClock

START_MS = 1_800_000_000_000
SECOND_MS = 1_000
HOUR_MS = 3_600_000


class Clocks:
    """The wall clock and the monotonic clock, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms, self.passed_ms = START_MS, 0
        monkeypatch.setattr(time, "time_ns", lambda: self.wall_ms * 1_000_000)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.passed_ms * 1_000_000)

    def pass_(self, ms: int) -> None:
        self.wall_ms += ms
        self.passed_ms += ms

    def restart(self) -> None:
        """Reboot: the monotonic clock restarts."""
        self.passed_ms = 0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def a_clock(folder: Path, last_ms: int = 0, planned: int | None = None) -> JobClock:
    """A job's clock at its start, with or without a batch that Spark has planned."""
    if planned is not None:
        (folder / "offsets").mkdir(exist_ok=True)
        metadata = json.dumps({"batchTimestampMs": START_MS})
        (folder / "offsets" / str(planned)).write_text(f"v2\n{metadata}\n")
    return JobClock(Checkpoint(folder), last_ms, is_wall=True)


def test_a_clock_without_steps_is_the_wall_clock_and_stores_nothing(tmp_path, clocks):
    clock = a_clock(tmp_path)

    for batch_id in range(10):
        clocks.pass_(HOUR_MS)
        assert clock.now_ms() == clocks.wall_ms
        assert clock.of_batch(batch_id, clocks.wall_ms - 20) == clocks.wall_ms - 20

    assert list(tmp_path.iterdir()) == []


def test_a_clock_set_back_by_an_hour_delays_nothing(tmp_path, clocks, caplog):
    clock = a_clock(tmp_path)
    clocks.pass_(SECOND_MS)
    planned_ms = clocks.wall_ms

    clocks.wall_ms -= HOUR_MS
    with caplog.at_level(logging.WARNING):
        instant = clock.of_batch(7, planned_ms)
    clocks.pass_(10 * SECOND_MS)
    later = clock.now_ms()

    assert instant == START_MS + SECOND_MS - SECOND_MS // 10
    assert later - instant == 9 * SECOND_MS
    assert "was set back by 3600.0 s" in caplog.text


def test_the_job_clock_meets_the_wall_clock_after_ten_times_the_step(tmp_path, clocks):
    clock = a_clock(tmp_path)
    clocks.wall_ms -= HOUR_MS
    before = clock.now_ms()

    for _ in range(601):
        clocks.pass_(60 * SECOND_MS)
        now = clock.now_ms()
        assert now - before >= 54 * SECOND_MS - 1
        before = now

    assert before == clocks.wall_ms


def test_a_clock_set_back_and_corrected_makes_no_jump(tmp_path, clocks):
    clock = a_clock(tmp_path)
    clocks.wall_ms -= HOUR_MS
    clock.now_ms()

    clocks.wall_ms += HOUR_MS

    assert clock.now_ms() == clocks.wall_ms == START_MS


def test_a_clock_set_forward_is_followed(tmp_path, clocks):
    clock = a_clock(tmp_path)

    clocks.wall_ms += HOUR_MS

    assert clock.now_ms() == clock.of_batch(0, clocks.wall_ms) == START_MS + HOUR_MS


def test_a_repeated_batch_has_the_same_timestamp(tmp_path, clocks):
    clock = a_clock(tmp_path)
    clocks.wall_ms -= HOUR_MS
    instant = clock.of_batch(7, START_MS)

    clocks.pass_(60 * SECOND_MS)
    clocks.restart()
    again = a_clock(tmp_path, planned=7)

    assert again.of_batch(7, START_MS) == instant
    assert again.of_batch(8, clocks.wall_ms) >= instant


def test_a_repeated_batch_keeps_its_timestamp_after_the_clock_was_set_back(tmp_path, clocks):
    first = a_clock(tmp_path)
    assert first.of_batch(7, START_MS) == START_MS

    clocks.wall_ms -= HOUR_MS
    clocks.restart()
    again = a_clock(tmp_path, last_ms=START_MS - SECOND_MS, planned=7)

    assert again.of_batch(7, START_MS) == START_MS
    assert again.of_batch(8, clocks.wall_ms) == START_MS


def test_a_clock_set_back_while_the_job_was_stopped_delays_nothing(tmp_path, clocks):
    clocks.wall_ms -= HOUR_MS

    clock = a_clock(tmp_path, last_ms=START_MS)

    assert clock.now_ms() == START_MS
    clocks.pass_(10 * SECOND_MS)
    assert clock.now_ms() == START_MS + 9 * SECOND_MS


def test_with_clock_event_timestamps_are_those_of_spark(tmp_path, clocks):
    clock = JobClock(Checkpoint(tmp_path), START_MS + HOUR_MS, is_wall=False)
    clocks.wall_ms -= HOUR_MS

    assert clock.of_batch(0, START_MS) == START_MS


def test_the_stored_timestamp_is_readable(tmp_path, clocks):
    clock = a_clock(tmp_path)
    clocks.wall_ms -= HOUR_MS

    instant = clock.of_batch(7, START_MS)

    kept = json.loads((tmp_path / "clock.json").read_text())
    assert kept == {"batch_id": 7, "now_ms": instant}
