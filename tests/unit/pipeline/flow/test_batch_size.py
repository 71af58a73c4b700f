"""The gate between the two marks (D9)."""

import pytest

from streaming.ledger.batch_detail import GateState
from streaming.pipeline.flow.batch_size import Gate
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


def test_without_marks_nothing_is_throttled():
    gate = Gate(MemoryMarks(high_bytes=None, low_bytes=None, notes=()), 50)

    assert gate.decide(1 << 60, 10.0) == GateState(1 << 60, 50, "off", open=True)


def test_between_the_marks_the_gate_keeps_its_state():
    gate = Gate(MARKS, 50)

    opened = [gate.decide(size, 10.0).open for size in (900, 1001, 990, 810, 799, 950, 1000)]

    assert opened == [True, False, False, False, True, True, True]


def test_before_the_first_message_a_kibibyte_each_is_assumed():
    gate = Gate(MemoryMarks(high_bytes=10_240, low_bytes=8_000, notes=()), 50)

    assert gate.decide(0, 0.0) == GateState(0, 10, "between", open=True)


def test_larger_messages_make_smaller_batches():
    gate = Gate(MemoryMarks(high_bytes=None, low_bytes=None, notes=()), 50, max_bytes=1000)

    rows = [gate.decide(0, mean).max_rows for mean in (0.0, 20.0, 100.0, 5000.0)]

    assert rows == [50, 50, 10, 1]


def test_a_full_batch_of_large_messages_that_fits_is_below_the_marks():
    gate = Gate(MARKS, 50, max_bytes=100)

    assert gate.decide(0, 50.0) == GateState(0, 2, "below", open=True)


PROCESSES = MemoryMarks(1000, 800, (), process_high_bytes=100, process_low_bytes=80)


def test_process_memory_closes_the_gate_above_its_high_mark_and_opens_it_below_the_low_one():
    gate = Gate(PROCESSES, 50)

    states = [gate.decide(0, 10.0, size) for size in (None, 100, 101, 90, 80, 79, 100)]

    assert [state.open for state in states] == [True, True, False, False, False, True, True]
    assert [state.cause for state in states[1:4]] == ["below", "memory", "memory"]
    assert [state.process_bytes for state in states[:3]] == [None, 100, 101]


def test_a_gate_closed_by_process_memory_lets_small_batches_in():
    rows = [Gate(PROCESSES, most).decide(0, 1.0, 101).max_rows for most in (500, 50)]

    assert rows == [5, 1]


def test_the_gate_opens_when_both_are_below_their_low_marks():
    gate = Gate(PROCESSES, 50)

    states = [
        gate.decide(resident, 10.0, processes)
        for resident, processes in ((1001, 101), (0, 101), (900, 79), (1001, 79), (900, 50))
    ]

    assert [(state.cause, state.open) for state in states] == [
        ("above", False),
        ("memory", False),
        ("between", True),
        ("above", False),
        ("above", False),
    ]
    assert states[0].max_rows == 0
