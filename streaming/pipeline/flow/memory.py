"""How much memory there is, and the two marks of flow control that follow from it.

Memory is the least of what is installed, what the control group allows and what the process may
address. The words of the report are those of RabbitMQ's guide to memory-based flow control:

    Memory limit set to 2048MB.
    Unknown total memory size for your OS {unix,magic_homebrew_os}. Assuming memory size is 1024MB.

`this_machine` alone touches the machine; all else is a function of the `Machine` it is given.
"""

import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from streaming.config.flow import Absolute, FlowSettings

MEGABYTE: Final = 1_048_576
"""The guide's: it calls 40 % of 1 GB 410 MB, and 3 times 1024 MB 3 GB."""

DECIMAL_MEGABYTE: Final = 1_000_000
"""That of a size written as `64MB`, in RabbitMQ's configuration and in ours."""

ASSUMED_MEMORY_BYTES: Final = 1_024 * MEGABYTE

_NO_LIMIT_FROM_BYTES: Final = 2**60
"""Control groups write `no limit` of old as the largest page-aligned number."""

_CGROUP_ROOT: Final = PurePosixPath("/sys/fs/cgroup")
_ADDRESSABLE_BYTES: Final = {
    (32, "unix"): 2**32,
    (32, "win32"): 2**31,
    (64, "unix"): 2**48,
    (64, "win32"): 2**43,
}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be asked of a machine.

    Attributes:
        family: `unix` or `win32`.
        system: the system's name, as the warning of an unknown one gives it.
        pointer_bits: 32 or 64, of this process.
        installed_bytes: the memory installed; None if the system does not say.
        address_limit_bytes: the limit set for this process (RLIMIT_AS); None if there is none.
        read_text: the text of a file under /proc or /sys; None if it is not there.
    """

    family: str
    system: str
    pointer_bits: int
    installed_bytes: Callable[[], int | None]
    address_limit_bytes: Callable[[], int | None]
    read_text: Callable[[str], str | None]


class Memory(msgspec.Struct, frozen=True):
    """The memory that a fraction is of.

    Attributes:
        total_bytes: how much.
        known: whether it was detected, not assumed.
    """

    total_bytes: int
    known: bool


class Note(msgspec.Struct, frozen=True):
    """A line for the log.

    Attributes:
        level: of the logging module: INFO or WARNING.
        text: the line.
    """

    level: int
    text: str


class MemoryMarks(msgspec.Struct, frozen=True):
    """Where publishes are held back and where they flow again.

    Attributes:
        high_bytes: the gate closes above; None: flow control is off.
        low_bytes: the gate opens below; at least 1, so that an empty broker is below it.
        notes: what to log at start.
    """

    high_bytes: int | None
    low_bytes: int | None
    notes: tuple[Note, ...]


def memory_marks(flow: FlowSettings, machine: Machine) -> MemoryMarks:
    """The marks in bytes, and what the log has to say of them.

    A size counts as it is written, whatever the machine has, because bodies rest in the tables and
    not in memory. A fraction above 1 scales the memory that is assumed where none is detected; of
    memory that is known there is no more than the whole.
    """
    notes: list[Note] = []
    watermark = flow.vm_memory_high_watermark
    if isinstance(watermark, Absolute):
        high_bytes, unit = watermark.size_bytes, DECIMAL_MEGABYTE
        if high_bytes % unit:
            unit = MEGABYTE
    else:
        high_bytes, unit = 0, MEGABYTE
        if watermark.fraction > 0:
            memory = detect_memory(machine)
            fraction = watermark.fraction
            if not memory.known:
                notes.append(_unknown_memory(machine, memory))
            elif fraction > 1:
                notes.append(_more_than_all(fraction, memory))
                fraction = 1.0
            high_bytes = max(1, int(memory.total_bytes * fraction))
    if high_bytes == 0:
        off = Note(logging.INFO, "Memory-based flow control is off: vm_memory_high_watermark is 0.")
        return MemoryMarks(None, None, (off,))
    megabytes = -(-high_bytes // unit)
    notes.append(Note(logging.INFO, f"Memory limit set to {megabytes}MB."))
    low_bytes = max(1, int(high_bytes * flow.low_mark_fraction))
    return MemoryMarks(high_bytes, low_bytes, tuple(notes))


def _unknown_memory(machine: Machine, memory: Memory) -> Note:
    return Note(
        logging.WARNING,
        f"Unknown total memory size for your OS {{{machine.family},{machine.system}}}. "
        f"Assuming memory size is {memory.total_bytes // MEGABYTE}MB.",
    )


def _more_than_all(fraction: float, memory: Memory) -> Note:
    return Note(
        logging.WARNING,
        f"vm_memory_high_watermark is {fraction:g}, more than all of the memory there is: the "
        f"limit is all of it, {memory.total_bytes // MEGABYTE}MB.",
    )


def detect_memory(machine: Machine) -> Memory:
    """The least of installed memory, control group limit and address space.

    Where neither of the first two is to be had, the memory is not known, and 1024 MB is assumed.
    """
    limits = [*_cgroup_limits(machine.read_text)]
    installed_bytes = machine.installed_bytes()
    if installed_bytes is not None:
        limits.append(installed_bytes)
    known = bool(limits)
    address_limit_bytes = machine.address_limit_bytes()
    if address_limit_bytes is not None:
        limits.append(address_limit_bytes)
    limits.append(_ADDRESSABLE_BYTES[machine.pointer_bits, machine.family])
    if not known:
        limits.append(ASSUMED_MEMORY_BYTES)
    return Memory(min(limits), known)


def _cgroup_limits(read_text: Callable[[str], str | None]) -> Iterator[int]:
    """The limits of this process's control groups, of both versions, and of those around them.

    A container sees its own group as the root, or sees the host's path and not the folder, so the
    root is asked in any case.
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
        for group in _with_parents(path):
            limit = _limit_in(read_text(str(root / group / name)))
            if limit is not None:
                yield limit


def _with_parents(path: str) -> Iterator[str]:
    """`/a/b` gives `a/b`, `a` and the root; a path out of the visible tree gives the root."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    for length in range(len(parts), -1, -1):
        yield "/".join(parts[:length])


def _limit_in(text: str | None) -> int | None:
    """The number in a limit's file; None for `max`, its equivalents, and what is no number."""
    stripped = (text or "").strip()
    if not stripped.isdecimal():
        return None
    limit = int(stripped)
    return limit if 0 < limit < _NO_LIMIT_FROM_BYTES else None


def this_machine() -> Machine:
    """The machine that this process runs on."""
    windows = sys.platform == "win32"
    return Machine(
        family="win32" if windows else "unix",
        system=platform.system().lower() or "unknown",
        pointer_bits=64 if sys.maxsize > 2**32 else 32,
        installed_bytes=_installed_bytes,
        address_limit_bytes=_address_limit_bytes,
        read_text=_read_text,
    )


def _installed_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") or None
    except (AttributeError, OSError, ValueError):  # not a Unix, or one that does not say
        return None


def _address_limit_bytes() -> int | None:
    try:
        resource = import_module("resource")
    except ModuleNotFoundError:  # not a Unix
        return None
    soft_bytes, _hard_bytes = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft_bytes == resource.RLIM_INFINITY else int(soft_bytes)


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
