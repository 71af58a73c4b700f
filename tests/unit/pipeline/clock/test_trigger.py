"""The pause between two batches."""

import threading
import time

import pytest

from streaming.machine_cores import LOOK_S, Cores
from streaming.pipeline.clock.trigger import Trigger


class Machine:
    """Its time passes only in waits; no core is left until `calm_s`, and one from then on."""

    def __init__(self, monkeypatch, calm_s=float("inf")):
        self.now_s, self.left_s = 50.0, 1.0
        self.waits = []
        self._calm_s = self.now_s + calm_s
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(threading.Event, "wait", lambda _self, left_s: self.waited(left_s))

    def waited(self, seconds):
        self.waits.append(seconds)
        self.passes(seconds)

    def passes(self, seconds):
        self.left_s += max(self.now_s + seconds - max(self._calm_s, self.now_s), 0.0)
        self.now_s += seconds

    def trigger(self):
        return Trigger(100, Cores(lambda: self.left_s, lambda: self.now_s))


@pytest.mark.parametrize("shares_cores", [True, False])
@pytest.mark.parametrize(
    ("least_s", "passed_s", "expected_s"),
    [(0.0, 0.03, 0.07), (0.0, 0.2, None), (1.2, 0.7, 0.5), (1.2, 1.3, None)],
)
def test_a_batch_begins_when_the_interval_and_what_was_asked_for_have_passed(
    monkeypatch, least_s, passed_s, expected_s, shares_cores
):
    machine = Machine(monkeypatch)
    trigger = machine.trigger() if shares_cores else Trigger(100)

    trigger.batch_began()
    machine.passes(passed_s)
    trigger.wait(least_s)

    assert machine.waits == ([] if expected_s is None else [pytest.approx(expected_s)])


@pytest.mark.parametrize(
    ("calm_s", "expected_s"),
    [(0.0, 1.5), (0.7, 1.5), (2.1, 3.5), (2.4, 3.5), (6.2, 7.5), (float("inf"), 10.0)],
)
def test_it_waits_for_a_core_but_not_for_ever(monkeypatch, calm_s, expected_s):
    machine = Machine(monkeypatch, calm_s)
    trigger = machine.trigger()

    trigger.batch_began()
    began_s = machine.now_s
    machine.passes(0.75)
    trigger.wait(1.5, 10.0)

    assert machine.now_s - began_s == pytest.approx(expected_s)


@pytest.mark.parametrize(("enough_s", "expected_s"), [(0.0, 3.0), (4.5, 5.0), (30.0, 10.0)])
def test_if_little_is_waiting_it_waits_for_no_core(monkeypatch, enough_s, expected_s):
    machine = Machine(monkeypatch)
    trigger = machine.trigger()

    trigger.batch_began()
    began_s = machine.now_s
    machine.passes(3.0)
    trigger.wait(1.5, 10.0, lambda: machine.now_s - began_s < enough_s)

    assert machine.now_s - began_s == pytest.approx(expected_s)


def test_nothing_is_asked_about_a_machine_that_is_not_busy(monkeypatch):
    machine = Machine(monkeypatch, calm_s=0.0)
    trigger = machine.trigger()

    trigger.batch_began()
    machine.passes(3.0)
    trigger.wait(1.5, 10.0, lambda: pytest.fail("asked"))

    assert machine.waits == []


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_batch_that_took_longer_than_that_lets_none_wait(monkeypatch, is_shared):
    machine = Machine(monkeypatch)
    trigger = machine.trigger() if is_shared else Trigger(100)

    trigger.batch_began()
    machine.passes(11.0 if is_shared else 2.0)
    trigger.wait(1.5, 10.0)

    assert machine.waits == []


def test_a_short_batch_is_looked_at_for_long_enough(monkeypatch):
    machine = Machine(monkeypatch, calm_s=0.0)
    trigger = machine.trigger()

    trigger.batch_began()
    machine.passes(0.4)
    trigger.wait(0.5, 10.0)

    assert sum(machine.waits) == pytest.approx(LOOK_S - 0.4)


def test_a_stop_ends_the_pause_and_all_later_ones():
    trigger = Trigger(0, Cores(lambda: 1.0))
    trigger.batch_began()
    waiting = threading.Thread(target=trigger.wait, args=(0.0, 1_000_000.0))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()

    trigger.stop()
    waiting.join()
    trigger.wait(1_000_000.0, 1_000_000.0)
