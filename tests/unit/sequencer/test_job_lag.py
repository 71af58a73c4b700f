"""Do publishers wait while the job is too far behind, and only then?"""

import pytest

from streaming.sequencer.job_lag import MAX_SAMPLES, RESTART_S, JobLag, Lag, LagMarks


def test_the_lag_is_what_the_job_has_not_committed():
    one = JobLag(LagMarks())
    for second in range(10):
        one.update((100 * second, 1_000 * second), 0, second)

    one.update((900, 9_000), 450, 10.0)
    assert one.lag == Lag(5_000, 5.0)  # at least: its next record was there at second 5
    one.update((900, 9_000), 900, 20.0)
    assert one.lag == Lag(0, 0.0)
    one.update((900, 9_000), 900, 200.0)
    assert one.lag == Lag(0, 0.0), "an idle log is not late"


@pytest.mark.parametrize("marks", [LagMarks(bytes=4_000), LagMarks(seconds=40.0)])
def test_publishers_wait_above_the_mark_until_the_lag_is_half_of_it(marks):
    one = JobLag(marks)
    heard = []
    for second in range(100):
        committed = 0 if second < 50 else min(second, (second - 50) * 4)
        one.update((second, 100 * second), committed, float(second))
        heard.append(one.is_high)

    first, last = heard.index(True), len(heard) - 1 - heard[::-1].index(True)
    assert 40 <= first <= 42
    assert all(heard[first : last + 1])
    assert one.lag is not None
    assert 55 <= last <= 66, "half of it is reached then"


def test_publishers_that_wait_go_on_to_while_the_job_may_start_again():
    one = JobLag(LagMarks(bytes=10, seconds=1.0))
    one.update((100, 1_000), 0, 1.0)
    one.update((900, 9_000), 0, 100.0)
    assert one.is_high

    one.update((900, 9_000), None, 101.0)
    assert (one.lag, one.is_high) == (None, True)
    one.update((900, 9_000), None, 100.0 + RESTART_S - 1)
    assert one.is_high
    one.update((900, 9_000), None, 100.0 + RESTART_S)
    assert not one.is_high


def test_publishers_do_not_begin_to_wait_for_a_job_that_is_silent():
    one = JobLag(LagMarks(bytes=10, seconds=1.0))
    one.update((100, 1_000), 100, 1.0)

    one.update((900, 9_000), None, 50.0)
    assert (one.lag, one.is_high) == (None, False)

    one.update((900, 9_000), 100, 60.0)
    assert one.is_high


def test_a_mark_of_zero_is_none():
    one = JobLag(LagMarks())
    one.update((0, 0), 0, 0.0)
    one.update((900, 1 << 40), 0, 1e6)

    assert not one.is_high
    assert one.lag is not None
    assert one.lag.bytes == 1 << 40


def test_a_log_without_a_job_takes_a_bounded_memory():
    one = JobLag(LagMarks())
    for number in range(3 * MAX_SAMPLES):
        one.update((number, number), None, float(number))

    assert len(one) <= MAX_SAMPLES
    one.update((number, number), number // 2, float(number))
    assert one.lag is not None
    assert one.lag.bytes == pytest.approx(number / 2, rel=0.05)
