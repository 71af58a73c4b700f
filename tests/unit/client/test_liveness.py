"""When a job counts as silent."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from streaming.client._transport.liveness import MAX_TURN_S, SILENT_S, Liveness, local_time

TURN_S = 0.125


def turns_until_silent(liveness: Liveness, now_s: float, most: int = 1_000) -> int | None:
    """How many turns of the reader's loop it takes from now on; None: no silence."""
    return next(
        (turn for turn in range(1, most + 1) if liveness.turn(now_s + turn * TURN_S)),
        None,
    )


def test_silence_is_reported_after_its_time_and_repeatedly():
    liveness = Liveness(100.0)
    liveness.heartbeat(0.0, 0, 0)

    assert turns_until_silent(liveness, 100.0) == SILENT_S / TURN_S
    assert turns_until_silent(liveness, 100.0 + SILENT_S) == SILENT_S / TURN_S


def test_any_record_of_the_job_ends_the_silence():
    liveness = Liveness(0.0)
    liveness.heartbeat(0.0, 0, 0)
    assert turns_until_silent(liveness, 0.0, most=31) is None
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 31 * TURN_S) == SILENT_S / TURN_S


def test_a_job_without_a_heartbeat_is_never_silent():
    liveness = Liveness(0.0)
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 0.0) is None


def test_after_losing_read_access_to_the_heartbeat_nothing_is_silent():
    liveness = Liveness(0.0)
    liveness.heartbeat(0.0, 0, 0)
    liveness.heartbeat_unreadable()

    assert turns_until_silent(liveness, 0.0) is None


def test_a_process_that_was_stopped_polls_before_it_reports_silence():
    liveness = Liveness(0.0)
    liveness.heartbeat(0.0, 0, 0)
    hour_s = 3_600.0

    assert not liveness.turn(hour_s)
    assert turns_until_silent(liveness, hour_s) == (SILENT_S - MAX_TURN_S) / TURN_S


WALL_MS = 1_790_000_000_000
OLD_MS = 60_000


@pytest.fixture
def listening():
    liveness = Liveness(time.monotonic())
    liveness.can_hear = True
    return liveness


def test_an_old_heartbeat_that_kafka_kept_does_not_mean_that_a_job_is_running(listening):
    listening.heartbeat(time.monotonic(), WALL_MS - OLD_MS, WALL_MS)

    assert not listening.is_running
    assert listening.absence().endswith(local_time(WALL_MS - OLD_MS))


@pytest.mark.parametrize("ages_ms", [[0], [OLD_MS, OLD_MS - 1000], [-OLD_MS, -OLD_MS - 1000]])
def test_a_recent_heartbeat_or_any_second_one_shows_a_job_whatever_its_clock(listening, ages_ms):
    for age_ms in ages_ms:
        listening.heartbeat(time.monotonic(), WALL_MS - age_ms, WALL_MS)

    assert listening.is_running
    assert listening.absence() == ""


def test_an_answer_shows_a_job_too(listening):
    listening.heard(time.monotonic())

    assert listening.is_running


def test_without_any_heartbeat_there_is_no_time_to_name(listening):
    assert listening.absence()
    assert not any(character.isdigit() for character in listening.absence())


def test_nothing_is_said_of_a_job_whose_heartbeat_cannot_be_read(listening):
    listening.heartbeat(time.monotonic(), WALL_MS - OLD_MS, WALL_MS)
    listening.heartbeat_unreadable()

    assert (listening.can_hear, listening.absence()) == (False, "")


def test_a_time_has_its_date_unless_it_is_today():
    at = datetime(2026, 3, 1, 7, 9, 30, tzinfo=UTC)
    at_ms = int(at.timestamp() * 1000)
    here = at.astimezone()

    assert local_time(at_ms, at) == f"{here:%H:%M:%S %Z}"
    assert local_time(at_ms, at + timedelta(days=1)) == f"{here:%Y-%m-%d %H:%M:%S %Z}"
