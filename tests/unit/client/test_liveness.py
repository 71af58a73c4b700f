"""When a job counts as silent: after seconds in which it could have been heard, and was not."""

from streaming.client._transport.liveness import MAX_TURN_S, SILENT_S, Liveness

TURN_S = 0.125


def turns_until_silent(liveness: Liveness, now_s: float, most: int = 1_000) -> int | None:
    """How many turns of the reader's loop it takes from now on; None: no silence."""
    return next(
        (turn for turn in range(1, most + 1) if liveness.turn(now_s + turn * TURN_S)),
        None,
    )


def test_silence_is_told_after_its_time_and_again_after_as_much():
    liveness = Liveness(100.0)
    liveness.heartbeat()

    assert turns_until_silent(liveness, 100.0) == SILENT_S / TURN_S
    assert turns_until_silent(liveness, 100.0 + SILENT_S) == SILENT_S / TURN_S


def test_whatever_the_job_says_ends_the_silence():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    assert turns_until_silent(liveness, 0.0, most=31) is None
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 31 * TURN_S) == SILENT_S / TURN_S


def test_a_job_whose_heartbeat_was_never_heard_is_not_judged():
    liveness = Liveness(0.0)
    liveness.heard(0.0)

    assert turns_until_silent(liveness, 0.0) is None


def test_a_heartbeat_that_may_not_be_read_any_more_judges_nobody():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    liveness.heartbeat_unreadable()

    assert turns_until_silent(liveness, 0.0) is None


def test_a_process_that_was_stopped_polls_before_it_judges():
    liveness = Liveness(0.0)
    liveness.heartbeat()
    hour_s = 3_600.0

    assert not liveness.turn(hour_s)
    assert turns_until_silent(liveness, hour_s) == (SILENT_S - MAX_TURN_S) / TURN_S
