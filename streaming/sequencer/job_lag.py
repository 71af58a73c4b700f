"""How far the job is behind the front, and whether publishers must wait for it.

    front:  samples of (next offset, bytes so far, instant)    every quarter of a second
    job:    next offset that it has not committed              every second

A job that is behind may crash, just because it is. So publishers that wait go on to wait while it
may start again; none begin to wait for a job that is silent.

What the log had before the front opened it counts as nothing: its size is not known.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

MAX_SAMPLES: Final = 4_096

LOW_MARK: Final = 0.5
"""Publishers resume below this part of the marks."""


RESTART_S: Final = 120.0
"""Publishers that wait resume when a job was silent for so long."""


class Lag(NamedTuple):
    """How far the job is behind, at least."""

    bytes: int
    seconds: float


class LagMarks(NamedTuple):
    """Above which lag publishers wait; 0: never."""

    bytes: int = 0
    seconds: float = 0.0


NO_MARKS: Final = LagMarks()


class JobLag:
    """The lag of the job behind one vhost.

    Attributes:
        lag: as of the last `update`; None if no job follows.
        is_high: whether publishers must wait.
    """

    def __init__(self, marks: LagMarks) -> None:
        self.lag: Lag | None = None
        self.is_high = False
        self._marks = marks
        self._followed_s = float("-inf")
        self._offsets: list[int] = []
        self._rest: list[tuple[int, float]] = []  # bytes and instant of each sample

    def __len__(self) -> int:
        """How many samples it has."""
        return len(self._offsets)

    def __str__(self) -> str:
        """Say how far the job is behind."""
        lag = self.lag
        if lag is None:
            return "no job follows the log"
        return f"{lag.bytes:,} bytes, {lag.seconds:.1f} s"

    def update(self, position: tuple[int, int], committed: int | None, now_s: float) -> None:
        """Note how far the front is, and how far the job.

        Args:
            position: next offset of the front, and the bytes of the log that it has seen.
            committed: next offset of the job; None if none follows.
        """
        next_offset, size = position
        if not self._offsets or self._offsets[-1] < next_offset:
            self._offsets.append(next_offset)
            self._rest.append((size, now_s))
        self.lag = None if committed is None else self._behind(committed, size, now_s)
        if self.lag is not None:
            self._followed_s = now_s
            self.is_high = self._is_above(self.lag)
        elif now_s - self._followed_s >= RESTART_S:
            self.is_high = False
        self._forget(committed)

    def _behind(self, committed: int, size: int, now_s: float) -> Lag:
        at = bisect_right(self._offsets, committed)
        if at == len(self._offsets):
            return Lag(0, 0.0)
        before, _at_s = self._rest[max(0, at - 1)]
        _size, applied_s = self._rest[at]
        return Lag(size - before, now_s - applied_s)

    def _is_above(self, lag: Lag) -> bool:
        part = LOW_MARK if self.is_high else 1.0
        marks = self._marks
        return bool(
            (marks.bytes and lag.bytes > marks.bytes * part)
            or (marks.seconds and lag.seconds > marks.seconds * part)
        )

    def _forget(self, committed: int | None) -> None:
        if committed is not None:
            used = max(0, bisect_right(self._offsets, committed) - 1)
            del self._offsets[:used], self._rest[:used]
        if len(self._offsets) > MAX_SAMPLES:  # older ones become coarser
            del self._offsets[1 : MAX_SAMPLES // 2 : 2], self._rest[1 : MAX_SAMPLES // 2 : 2]
