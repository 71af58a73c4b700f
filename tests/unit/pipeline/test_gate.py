"""The gate between the two marks (D9)."""

import pytest

from streaming.pipeline.flow.gate import Gate, GateState
from streaming.pipeline.flow.memory import MemoryMarks

MARKS = MemoryMarks(high_bytes=1000, low_bytes=800, notes=())


@pytest.mark.parametrize(
    ("resident_bytes", "was_open", "state"),
    [
        (0, True, GateState(0, 50, "below", open=True)),
        (950, True, GateState(950, 5, "between", open=True)),
        (1000, True, GateState(1000, 1, "between", open=True)),
        (1001, True, GateState(1001, 0, "above", open=False)),
        (900, False, GateState(900, 0, "above", open=False)),
        (800, False, GateState(800, 0, "above", open=False)),
        (799, False, GateState(799, 20, "between", open=True)),
    ],
)
def test_the_gate_closes_above_the_high_mark_and_opens_below_the_low_one(
    resident_bytes, was_open, state
):
    gate = Gate(MARKS, 50, is_open=was_open)

    assert gate.decide(resident_bytes, 10.0) == state


def test_without_marks_nothing_is_held_back():
    gate = Gate(MemoryMarks(high_bytes=None, low_bytes=None, notes=()), 50)

    assert gate.decide(1 << 60, 10.0) == GateState(1 << 60, 50, "off", open=True)


def test_inside_the_band_the_gate_does_not_flap():
    gate = Gate(MARKS, 50)

    opened = [gate.decide(size, 10.0).open for size in (900, 1001, 990, 810, 799, 950, 1000)]

    assert opened == [True, False, False, False, True, True, True]


def test_before_any_message_was_seen_a_kibibyte_each_is_expected():
    gate = Gate(MemoryMarks(high_bytes=10_240, low_bytes=8_000, notes=()), 50)

    assert gate.decide(0, 0.0) == GateState(0, 10, "between", open=True)


def test_large_messages_make_batches_of_fewer():
    gate = Gate(MemoryMarks(high_bytes=None, low_bytes=None, notes=()), 50, max_bytes=1000)

    rows = [gate.decide(0, mean).max_rows for mean in (0.0, 20.0, 100.0, 5000.0)]

    assert rows == [50, 50, 10, 1]


def test_a_batch_of_large_messages_is_below_the_mark_when_it_fits():
    gate = Gate(MARKS, 50, max_bytes=100)

    assert gate.decide(0, 50.0) == GateState(0, 2, "below", open=True)
