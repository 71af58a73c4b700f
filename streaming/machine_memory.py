"""How much memory this machine gives to a process, and how much processes use.

Memory is the least of installed memory, the control group's limit and the process's address space.
Only `this_machine` and `process_tree_bytes` read the machine.
"""

import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

MEGABYTE: Final = 1_048_576
"""The guide's megabyte: it calls 40 % of 1 GB 410 MB, and 3 times 1024 MB 3 GB."""

ASSUMED_MEMORY_BYTES: Final = 1_024 * MEGABYTE

_NO_LIMIT_FROM_BYTES: Final = 2**60
"""Old control groups write `no limit` as the largest page-aligned number."""

_CGROUP_ROOT: Final = PurePosixPath("/sys/fs/cgroup")
_ADDRESSABLE_BYTES: Final = {32: 2**32, 64: 2**48}


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
