"""The marks of flow control that follow from the memory there is (`streaming.machine_memory`).

The log lines are those of RabbitMQ's guide to memory-based flow control:

    Memory limit set to 2048MB.
    Unknown total memory size for your OS {unix,magic_homebrew_os}. Assuming memory size is 1024MB.
"""

import logging
import re
from typing import Final

import msgspec

from streaming.config.flow import Absolute, FlowSettings, high_mark_bytes
from streaming.machine_memory import MEGABYTE, Machine, Memory, detect_memory

DECIMAL_MEGABYTE: Final = 1_000_000
"""The megabyte of a size written as `64MB`, in RabbitMQ's configuration and in ours."""

ADVISED_FRACTION: Final = 0.5
"""RabbitMQ's documentation advises against a larger fraction of the installed memory."""

HEAP_OVERHEAD: Final = 1.25
PYTHON_BYTES: Final = 1_024 * MEGABYTE
MAX_PROCESS_FRACTION: Final = 0.9
"""Idle processes may use the JVM's maximum heap, a quarter more for its other memory, and 1 GiB for
Python: a JVM keeps the heap that it once had, so a lower limit would throttle an idle job. In any
case, throttling begins before the machine is full."""

_JAVA_UNITS: Final = {"": 1, "k": 1024, "m": MEGABYTE, "g": 1024 * MEGABYTE, "t": 1024**4}


class Note(msgspec.Struct, frozen=True):
    """A line for the log, with its level of the logging module."""

    level: int
    text: str


class MemoryMarks(msgspec.Struct, frozen=True):
    """The marks between which flow control acts, and what to log about them at start.

    Attributes:
        high_bytes, low_bytes: for resident messages; None: flow control is off.
        process_high_bytes, process_low_bytes: for the job's processes; None: no limit.
    """

    high_bytes: int | None
    low_bytes: int | None
    notes: tuple[Note, ...]
    process_high_bytes: int | None = None
    process_low_bytes: int | None = None


def memory_marks(flow: FlowSettings, driver_memory: str, machine: Machine) -> MemoryMarks:
    """Return the marks in bytes, and what to log about them.

    An absolute mark limits resident messages only, whatever the machine has: their bodies are in
    the tables. A fraction limits both resident messages and the job's processes.

    Args:
        driver_memory: the maximum heap of Spark's JVM, as Java writes sizes.
    """
    watermark = flow.vm_memory_high_watermark
    if isinstance(watermark, Absolute):
        unit = MEGABYTE if watermark.size_bytes % DECIMAL_MEGABYTE else DECIMAL_MEGABYTE
        return _marks(watermark.size_bytes, unit, flow.low_mark_fraction, None, [])
    fraction = watermark.fraction
    if fraction == 0:
        return _marks(0, MEGABYTE, flow.low_mark_fraction, None, [])
    memory = detect_memory(machine)
    notes: list[Note] = []
    process_high_bytes = None
    if not memory.known:
        notes.append(
            Note(
                logging.WARNING,
                f"Unknown total memory size for your OS {{unix,{machine.system}}}. "
                f"Assuming memory size is {memory.total_bytes // MEGABYTE}MB.",
            )
        )
    else:
        if fraction > ADVISED_FRACTION:
            notes.append(_advice(fraction, memory))
        process_high_bytes = _process_limit(memory.total_bytes, min(fraction, 1.0), driver_memory)
    high_bytes = high_mark_bytes(watermark, memory) or 0
    return _marks(high_bytes, MEGABYTE, flow.low_mark_fraction, process_high_bytes, notes)


def _marks(
    high_bytes: int,
    unit: int,
    low_mark_fraction: float,
    process_high_bytes: int | None,
    notes: list[Note],
) -> MemoryMarks:
    if high_bytes == 0:
        off = Note(logging.INFO, "Memory-based flow control is off: vm_memory_high_watermark is 0.")
        return MemoryMarks(None, None, (off,))
    notes.append(Note(logging.INFO, f"Memory limit set to {-(-high_bytes // unit)}MB."))
    process_low_bytes = None
    if process_high_bytes is not None:
        process_low_bytes = int(process_high_bytes * low_mark_fraction)
        notes.append(
            Note(
                logging.INFO,
                "Publishes are also throttled while the processes of the job use more than "
                f"{-(-process_high_bytes // MEGABYTE)}MB.",
            )
        )
    # The low mark is at least 1, so that an empty broker is below it.
    low_bytes = max(1, int(high_bytes * low_mark_fraction))
    return MemoryMarks(high_bytes, low_bytes, tuple(notes), process_high_bytes, process_low_bytes)


def _advice(fraction: float, memory: Memory) -> Note:
    total = memory.total_bytes // MEGABYTE
    if fraction > 1:
        return Note(
            logging.WARNING,
            f"vm_memory_high_watermark is {fraction:g}, more than the whole memory: the limit is "
            f"all of it, {total}MB.",
        )
    return Note(
        logging.WARNING,
        f"vm_memory_high_watermark is {fraction:g}: RabbitMQ's documentation advises at most "
        f"{ADVISED_FRACTION:g} of the installed memory ({total}MB).",
    )


def _process_limit(total_bytes: int, fraction: float, driver_memory: str) -> int:
    """Return the limit of the job's processes: the fraction, but not less than they need idle."""
    size = re.fullmatch(r"([0-9]+)([kmgt]?)b?", driver_memory.strip().lower())
    heap_bytes = int(size[1]) * _JAVA_UNITS[size[2]] if size else 0
    idle_bytes = int(heap_bytes * HEAP_OVERHEAD) + PYTHON_BYTES
    return max(
        int(total_bytes * fraction), min(idle_bytes, int(total_bytes * MAX_PROCESS_FRACTION))
    )
