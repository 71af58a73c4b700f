"""A burst lasts as long as busy batches follow one another, and a minute at most."""

from streaming.pipeline.flow.busy_traffic import BURST_S, CALM_S, Burst


class Clock:
    """Says what it is told."""

    now_s = 1_000.0

    def __call__(self):
        return self.now_s


def a_burst():
    clock = Clock()
    return Burst(clock), clock


def test_there_is_none_before_a_busy_batch_and_behind_one_that_is_not():
    burst, _clock = a_burst()
    assert not burst.goes_on

    burst.batch_done(is_busy=True)
    assert burst.goes_on

    burst.batch_done(is_busy=False)
    assert not burst.goes_on


def test_it_is_over_when_no_batch_comes():
    burst, clock = a_burst()
    burst.batch_done(is_busy=True)
    clock.now_s += CALM_S - 0.1
    assert burst.goes_on

    clock.now_s += 0.2

    assert not burst.goes_on


def test_it_goes_on_while_a_batch_takes_long():
    burst, clock = a_burst()
    burst.batch_done(is_busy=True)
    burst.batch_began()
    clock.now_s += 2 * CALM_S
    assert burst.goes_on

    burst.batch_done(is_busy=True)

    assert burst.goes_on


def test_behind_a_pause_another_one_begins():
    burst, clock = a_burst()
    burst.batch_done(is_busy=True)
    clock.now_s += BURST_S
    burst.batch_began()
    assert not burst.goes_on

    burst.batch_done(is_busy=True)

    assert burst.goes_on


def test_busy_traffic_for_longer_than_a_minute_is_none():
    burst, clock = a_burst()
    found = []
    for _ in range(int(BURST_S) + 5):
        burst.batch_done(is_busy=True)
        found.append(burst.goes_on)
        clock.now_s += 1.0

    assert found == [True] * int(BURST_S) + [False] * 5
