"""The time of a log, as its writer sets it: that of the wall clock, but it never stands still.

A wall clock may be set back, or be behind that of the host that wrote the log before. Then the time
of the log goes on from where it was, as fast as time does.
"""

import time
from collections.abc import Callable


class LogClock:
    """The time of one log.

    Args:
        wall_ms: the wall clock, epoch milliseconds.
        elapsed_s: a clock that never goes back.
    """

    def __init__(
        self, wall_ms: Callable[[], int], elapsed_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_ms = wall_ms
        self._elapsed_s = elapsed_s
        self._base_ms, self._base_s = 0, elapsed_s()

    def now_ms(self) -> int:
        """The time of the log, epoch milliseconds."""
        wall_ms, now_s = self._wall_ms(), self._elapsed_s()
        went_on_ms = self._base_ms + int((now_s - self._base_s) * 1_000)
        if wall_ms < went_on_ms:
            return went_on_ms
        self._base_ms, self._base_s = wall_ms, now_s
        return wall_ms

    def note(self, at_ms: int) -> None:
        """Go on from the time of a record that somebody else has written."""
        if at_ms > self.now_ms():
            self._base_ms, self._base_s = at_ms, self._elapsed_s()

    def ahead_ms(self) -> int:
        """How far it is ahead of the wall clock, in tenths of a second."""
        return (self.now_ms() - self._wall_ms()) // 100 * 100
