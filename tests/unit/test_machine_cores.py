"""A machine is busy if less than half of a core was left since the last look."""

import os

import pytest

from streaming.machine_cores import Cores, left_s


class Machine:
    """Two clocks: of the machine, and of the time that its cores were left."""

    now_s = 100.0
    left_s = 40.0

    def passes(self, seconds, left):
        self.now_s += seconds
        self.left_s += seconds * left

    def cores(self):
        return Cores(lambda: self.left_s, lambda: self.now_s)


@pytest.mark.parametrize(("left", "busy"), [(0.0, True), (0.4, True), (0.6, False), (16.0, False)])
def test_it_is_busy_while_less_than_half_of_a_core_is_left(left, busy):
    machine = Machine()
    cores = machine.cores()
    machine.passes(2.0, left)

    assert cores.since_s == 2.0
    assert cores.look() is busy


def test_each_look_counts_from_the_one_before():
    machine = Machine()
    cores = machine.cores()
    found = []
    for left in (1.0, 0.0, 2.0):
        machine.passes(1.0, left)
        found.append(cores.look())

    assert found == [False, True, False]


@pytest.mark.parametrize(
    "text",
    [None, "", "cpu\n", "cpu  1 2 3 x 5 6\n", "cpu  0 0 0 0 0 0 0 0 0 0\n"],
    ids=["no file", "an empty file", "no numbers", "no number", "only zeros"],
)
def test_a_system_that_does_not_say_it_is_never_busy(tmp_path, text):
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text)
    machine = Machine()
    cores = Cores(lambda: left_s(stat), lambda: machine.now_s)
    machine.passes(5.0, 0.0)

    assert not cores.look()


def test_time_counts_as_left_that_is_idle_or_used_by_what_yields(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  10000 200 30000 4000 50 600 700 800 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")

    assert left_s(stat) == pytest.approx((200 + 4_000 + 50) / os.sysconf("SC_CLK_TCK"))
