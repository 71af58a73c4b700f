"""A burst lasts as long as busy batches follow one another, or the machine is busy; not for ever.

A backlog lasts as long as batches leave something behind.
"""

import pytest

from streaming.machine_cores import Cores
from streaming.pipeline.flow.busy_traffic import BACKLOG_S, BURST_S, CALM_S, BusyTraffic


class Clock:
    """Says what it is told."""

    now_s = 1_000.0

    def __call__(self):
        return self.now_s


def busy_traffic():
    clock = Clock()
    return BusyTraffic(elapsed_s=clock), clock


def test_there_is_none_before_a_busy_batch_and_behind_one_that_is_not():
    traffic, _clock = busy_traffic()
    assert not traffic.has_burst()

    traffic.batch_done(is_busy=True)
    assert traffic.has_burst()

    traffic.batch_done(is_busy=False)
    assert not traffic.has_burst()


def test_it_is_over_when_no_batch_comes():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    clock.now_s += CALM_S - 0.1
    assert traffic.has_burst()

    clock.now_s += 0.2

    assert not traffic.has_burst()


def test_it_has_burst_while_a_batch_takes_long():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    traffic.batch_began()
    clock.now_s += 2 * CALM_S
    assert traffic.has_burst()

    traffic.batch_done(is_busy=True)

    assert traffic.has_burst()


def test_behind_a_pause_another_one_begins():
    traffic, clock = busy_traffic()
    traffic.batch_done(is_busy=True)
    clock.now_s += BURST_S
    traffic.batch_began()
    assert not traffic.has_burst()

    traffic.batch_done(is_busy=True)

    assert traffic.has_burst()


def test_busy_traffic_for_longer_than_a_minute_is_none():
    traffic, clock = busy_traffic()
    found = []
    for _ in range(int(BURST_S) + 5):
        traffic.batch_done(is_busy=True)
        found.append(traffic.has_burst())
        clock.now_s += 1.0

    assert found == [True] * int(BURST_S) + [False] * 5


def test_a_backlog_lasts_until_a_batch_leaves_nothing_behind_or_none_comes():
    traffic, clock = busy_traffic()
    assert not traffic.has_backlog
    traffic.batch_done(has_backlog=True)
    assert traffic.has_backlog
    assert traffic.puts_upkeep_off()
    assert not traffic.has_burst()

    traffic.batch_done()
    assert not traffic.has_backlog
    traffic.batch_done(has_backlog=True)
    clock.now_s += BACKLOG_S

    assert not traffic.puts_upkeep_off()


class Machine(Clock):
    """Of its cores, `left` are left."""

    left = 2.0
    left_s = 50.0

    def passes(self, seconds):
        self.now_s += seconds
        self.left_s += seconds * self.left

    def traffic(self):
        return BusyTraffic(Cores(lambda: self.left_s, self), self)


def test_a_busy_machine_has_a_burst_before_a_batch_is_done():
    machine = Machine()
    traffic = machine.traffic()
    found = []
    for left in (2.0, 0.2, 0.3, 0.0, 0.7, 0.0):
        machine.left = left
        machine.passes(1.0)
        found.append(traffic.has_burst())
        assert traffic.puts_upkeep_off() is found[-1]

    assert found == [False, True, True, True, True, True]


def test_what_is_asked_twice_at_once_is_looked_at_once():
    machine = Machine()
    traffic = machine.traffic()
    machine.left = 0.0
    machine.passes(1.5)
    assert traffic.has_burst()

    machine.left = 2.0
    machine.passes(0.5)
    assert traffic.has_burst()

    machine.passes(CALM_S)
    assert not traffic.has_burst()


def test_a_short_pause_between_two_bursts_is_not_used():
    machine = Machine()
    traffic = machine.traffic()
    found = []
    for left in (0.0, *[2.0] * 4, 0.0, *[2.0] * 6):
        machine.left = left
        machine.passes(1.0)
        found.append(traffic.has_burst())

    assert found == [True] * 10 + [False] * 2


@pytest.mark.parametrize(("busy_s", "calm_s"), [(1, 6), (5, 8), (20, 6)])
def test_each_of_many_bursts_is_spared_and_each_longer_pause_is_used(busy_s, calm_s):
    machine = Machine()
    traffic = machine.traffic()
    bursts: list[bool] = []
    pauses: list[bool] = []
    for _ in range(30):
        for left, found, seconds in ((0.0, bursts, busy_s), (2.0, pauses, calm_s)):
            machine.left = left
            for _ in range(seconds):
                machine.passes(1.0)
                found.append(traffic.has_burst())

    assert all(bursts)
    assert pauses.count(False) == 30 * (calm_s - int(CALM_S) + 1)


def test_a_machine_that_is_always_busy_lets_upkeep_wait_for_a_minute():
    machine = Machine()
    traffic = machine.traffic()
    machine.left = 0.0
    found = []
    for _ in range(200):
        machine.passes(1.0)
        found.append(traffic.has_burst())

    assert found == [True] * int(BURST_S) + [False] * (200 - int(BURST_S))

    machine.left = 2.0
    machine.passes(10.0)
    assert not traffic.has_burst()
    machine.left = 0.0
    machine.passes(1.0)
    assert traffic.has_burst()


@pytest.mark.parametrize("lefts", [(0.0, 0.0, 0.0, 0.0, 2.0, 2.0), (0.0, 2.0, 2.0, 2.0, 2.0)])
def test_upkeep_is_not_starved_by_a_machine_that_is_busy_again_and_again(lefts):
    machine = Machine()
    traffic = machine.traffic()
    free = 0
    for _ in range(60):
        for left in lefts:
            machine.left = left
            machine.passes(1.0)
            free += not traffic.has_burst()

    assert free > 200  # of 360 seconds
