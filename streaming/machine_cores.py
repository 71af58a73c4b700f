"""How much of this machine's cores is left for a job that comes after others, such as fronts.

What yields to others (`nice`) leaves them what it uses. Batches and upkeep beside fronts yield, so
they do not make the machine busy by themselves.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ENOUGH: Final = 0.5
"""A machine with less of a core left is busy."""

LOOK_S: Final = 1.0
"""Over how long that counts, at least."""

_STAT: Final = Path("/proc/stat")
_LEFT: Final = (2, 4, 5)
"""Fields of its first line: used by what yields, idle, and idle but for a disk."""


def left_s(stat: Path = _STAT) -> float | None:
    """For how long cores of this machine were left since its start, together.

    In a container, that is the machine's, whatever the container may use.

    Returns:
        Seconds; None if this system does not say it. Some sandboxes say 0.
    """
    try:
        with stat.open() as file:
            fields = file.readline().split()
        ticks = sum(int(fields[each]) for each in _LEFT)
    except (OSError, ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK") or None


class Cores:
    """Says whether the machine is busy, from one look to the next. Use it on one thread at a time.

    Args:
        left_s: the time that cores were left so far, together, in seconds; None: it is not known.
        elapsed_s: a clock that never goes back.
    """

    def __init__(
        self,
        left_s: Callable[[], float | None] = left_s,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = left_s
        self._elapsed_s = elapsed_s
        self._at_s = elapsed_s()
        self._seen_s = left_s()

    @property
    def since_s(self) -> float:
        """How long the last look was ago."""
        return self._elapsed_s() - self._at_s

    def look(self) -> bool:
        """Whether the machine was busy since the last look; not if that is not known."""
        at_s, seen_s = self._elapsed_s(), self._left_s()
        before_at_s, before_s = self._at_s, self._seen_s
        self._at_s, self._seen_s = at_s, seen_s
        if before_s is None or seen_s is None:
            return False
        return seen_s - before_s < ENOUGH * (at_s - before_at_s)
