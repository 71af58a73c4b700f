"""When a job counts as silent."""

from streaming.client._transport.liveness import MAX_TURN_S, SILENT_S, Liveness

TURN_S = 0.125


def turns_until_silent(liveness: Liveness, now_s: float, most: int = 1_000) -> int | None:
    """How many turns of the reader's loop it takes from now on; None: no silence."""
    return next(
        (turn for turn in range(1, most + 1) if liveness.turn(now_s + turn * TURN_S)),
        None,
    )


def test_silence_is_reported_after_its_time_and_repeatedly():
    liveness = Liveness(100.0)
    liveness.heartbeat()

    assert turns_until_silent(liveness, 100.0) == SILENT_S / TURN_S
    assert turns_until_silent(liveness, 100.0 + SILENT_S) == SILENT_S / TURN_S


def test_any_record_of_the_job_ends_the_silence():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    assert turns_until_silent(liveness, 0.0, most=31) is None
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 31 * TURN_S) == SILENT_S / TURN_S


def test_a_job_without_a_heartbeat_is_never_silent():
    liveness = Liveness(0.0)
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 0.0) is None


def test_after_losing_read_access_to_the_heartbeat_nothing_is_silent():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    liveness.heartbeat_unreadable()

    assert turns_until_silent(liveness, 0.0) is None


def test_a_process_that_was_stopped_polls_before_it_reports_silence():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    hour_s = 3_600.0

    assert not liveness.turn(hour_s)
    assert turns_until_silent(liveness, hour_s) == (SILENT_S - MAX_TURN_S) / TURN_S
