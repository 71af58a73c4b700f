"""How much memory there is, and the marks of flow control that follow from it.

Memory is the least of installed memory, the control group's limit and the process's address space.
The log lines are those of RabbitMQ's guide to memory-based flow control:

    Memory limit set to 2048MB.
    Unknown total memory size for your OS {unix,magic_homebrew_os}. Assuming memory size is 1024MB.

Only `this_machine` and `process_tree_bytes` read the machine.
"""

import logging
import os
import platform
import re
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from streaming.config.flow import Absolute, FlowSettings

MEGABYTE: Final = 1_048_576
"""The guide's megabyte: it calls 40 % of 1 GB 410 MB, and 3 times 1024 MB 3 GB."""

DECIMAL_MEGABYTE: Final = 1_000_000
"""The megabyte of a size written as `64MB`, in RabbitMQ's configuration and in ours."""

ASSUMED_MEMORY_BYTES: Final = 1_024 * MEGABYTE

ADVISED_FRACTION: Final = 0.5
"""RabbitMQ's documentation advises against a larger fraction of the installed memory."""

HEAP_OVERHEAD: Final = 1.25
PYTHON_BYTES: Final = 1_024 * MEGABYTE
MAX_PROCESS_FRACTION: Final = 0.9
"""Idle processes may use the JVM's maximum heap, a quarter more for its other memory, and 1 GiB for
Python: a JVM keeps the heap that it once had, so a lower limit would throttle an idle job. In any
case, throttling begins before the machine is full."""

_NO_LIMIT_FROM_BYTES: Final = 2**60
"""Old control groups write `no limit` as the largest page-aligned number."""

_CGROUP_ROOT: Final = PurePosixPath("/sys/fs/cgroup")
_ADDRESSABLE_BYTES: Final = {32: 2**32, 64: 2**48}
_JAVA_UNITS: Final = {"": 1, "k": 1024, "m": MEGABYTE, "g": 1024 * MEGABYTE, "t": 1024**4}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a machine that the marks depend on; functions return None for unknown.

    Attributes:
        pointer_bits: 32 or 64, of this process.
        address_limit_bytes: returns the limit of this process (RLIMIT_AS).
        read_text: returns the text of a file under /proc or /sys.
    """

    system: str
    pointer_bits: int
    installed_bytes: Callable[[], int | None]
    address_limit_bytes: Callable[[], int | None]
    read_text: Callable[[str], str | None]


class Memory(msgspec.Struct, frozen=True):
    """The memory that a fraction refers to; `known` is False if it is only assumed."""

    total_bytes: int
    known: bool


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
    the tables. A fraction limits both resident messages and the job's processes. A fraction above 1
    scales the memory that is assumed when none is detected; otherwise it means 1.

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
        fraction = min(fraction, 1.0)
        process_high_bytes = _process_limit(memory.total_bytes, fraction, driver_memory)
    high_bytes = max(1, int(memory.total_bytes * fraction))
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


def detect_memory(machine: Machine) -> Memory:
    """Return the least of installed memory, control group limit and address space.

    If neither of the first two is known, the memory is not known, and 1024 MB is assumed.
    """
    limits = [*_cgroup_limits(machine.read_text)]
    installed_bytes = machine.installed_bytes()
    if installed_bytes is not None:
        limits.append(installed_bytes)
    known = bool(limits)
    address_limit_bytes = machine.address_limit_bytes()
    if address_limit_bytes is not None:
        limits.append(address_limit_bytes)
    limits.append(_ADDRESSABLE_BYTES[machine.pointer_bits])
    if not known:
        limits.append(ASSUMED_MEMORY_BYTES)
    return Memory(min(limits), known)


def _cgroup_limits(read_text: Callable[[str], str | None]) -> Iterator[int]:
    """Yield the limits of this process's control groups and their parents, of both versions.

    A container sees its own group as the root, or sees the host's path without the folder; so the
    root is always read.
    """
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            root, name = _CGROUP_ROOT / "memory", "memory.limit_in_bytes"
        elif hierarchy == "0" and not controllers:
            root, name = _CGROUP_ROOT, "memory.max"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # outside of the visible tree
            parts = []
        for length in range(len(parts), -1, -1):
            text = (read_text(str(root.joinpath(*parts[:length], name))) or "").strip()
            if text.isdecimal() and 0 < int(text) < _NO_LIMIT_FROM_BYTES:
                yield int(text)


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    return Machine(
        system=platform.system().lower() or "unknown",
        pointer_bits=64 if sys.maxsize > 2**32 else 32,
        installed_bytes=_installed_bytes,
        address_limit_bytes=_address_limit_bytes,
        read_text=_read_text,
    )


def process_tree_bytes(
    own_pid: int, tree_pid: int | None, proc: Path = Path("/proc")
) -> int | None:
    """Return the resident set size of a process, plus that of another one and its descendants.

    Memory that processes share counts once for each of them. Heap that a JVM has committed counts,
    whether it is in use or not.

    Returns:
        Bytes; None if this system has no /proc.
    """
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for folder in proc.iterdir() if proc.is_dir() else ():
        if not folder.name.isdigit():
            continue
        try:
            # The name may contain spaces and parentheses; the state and the parent follow it.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(folder.name)], pages[int(folder.name)] = int(fields[1]), int(fields[21])
    if own_pid not in pages:
        return None
    chosen = {own_pid}
    found = {pid for pid in pages if pid == tree_pid}
    while found:
        chosen |= found
        found = {pid for pid, parent in parents.items() if parent in found} - chosen
    return sum(pages[pid] for pid in chosen) * os.sysconf("SC_PAGE_SIZE")


def _installed_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") or None
    except (OSError, ValueError):  # unknown on this system
        return None


def _address_limit_bytes() -> int | None:
    soft_bytes, _hard_bytes = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft_bytes == resource.RLIM_INFINITY else int(soft_bytes)


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
