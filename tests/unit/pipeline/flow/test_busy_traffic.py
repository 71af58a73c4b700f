"""A burst lasts as long as busy batches follow one another, a minute at most; so does a backlog."""

from streaming.pipeline.flow.busy_traffic import BACKLOG_S, BURST_S, CALM_S, BusyTraffic


class Clock:
    """Says what it is told."""

    now_s = 1_000.0

    def __call__(self):
        return self.now_s


def busy_traffic():
    clock = Clock()
    return BusyTraffic(clock), clock


def test_there_is_none_before_a_busy_batch_and_behind_one_that_is_not():
    traffic, _clock = busy_traffic()
    assert not traffic.has_burst

    traffic.batch_done(is_busy=True)
    assert traffic.has_burst

    traffic.batch_done(is_busy=False)
    assert not traffic.has_burst


def test_it_is_over_when_no_batch_comes():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    clock.now_s += CALM_S - 0.1
    assert traffic.has_burst

    clock.now_s += 0.2

    assert not traffic.has_burst


def test_it_has_burst_while_a_batch_takes_long():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    traffic.batch_began()
    clock.now_s += 2 * CALM_S
    assert traffic.has_burst

    traffic.batch_done(is_busy=True)

    assert traffic.has_burst


def test_behind_a_pause_another_one_begins():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    clock.now_s += BURST_S
    traffic.batch_began()
    assert not traffic.has_burst

    traffic.batch_done(is_busy=True)

    assert traffic.has_burst


def test_busy_traffic_for_longer_than_a_minute_is_none():
    traffic, clock = busy_traffic()
    found = []
    for _ in range(int(BURST_S) + 5):
        traffic.batch_done(is_busy=True)
        found.append(traffic.has_burst)
        clock.now_s += 1.0

    assert found == [True] * int(BURST_S) + [False] * 5


def test_a_backlog_lasts_until_a_batch_leaves_nothing_behind_or_none_comes():
    traffic, clock = busy_traffic()
    assert not traffic.has_backlog
    traffic.batch_done(has_backlog=True)
    assert traffic.has_backlog
    assert traffic.puts_upkeep_off
    assert not traffic.has_burst

    traffic.batch_done()
    assert not traffic.has_backlog
    traffic.batch_done(has_backlog=True)
    clock.now_s += BACKLOG_S

    assert not traffic.puts_upkeep_off
