"""What upkeep waits for: a backlog that is worked off, and a burst of traffic beside fronts.

A batch is busy if it lets the next one wait (`pace.interval_s`). Busy batches that follow one
another are a burst, in which clients have what upkeep would take; but a minute of them is none any
more: compaction and snapshots may not wait for the end of that.
"""

import time
from collections.abc import Callable
from typing import Final

BACKLOG_S: Final = 60.0
"""After so long without a batch, nothing waits any more for a backlog to be worked off."""

BURST_S: Final = 60.0
"""The longest burst."""

CALM_S: Final = 5.0
"""After so long without a batch, a burst is over."""


class BusyTraffic:
    """Whether there is a backlog or a burst, as the batches say.

    Args:
        elapsed_s: a clock that never goes back.
    """

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        self._leaves_publishes = False
        self._began_s: float | None = None  # a burst
        self._batch_s = 0.0
        self._batch_runs = False

    def batch_began(self) -> None:
        """Note that a batch runs; behind a pause, a burst begins anew."""
        if self._elapsed_s() - self._batch_s >= CALM_S:
            self._began_s = None
        self._batch_runs = True

    def batch_done(self, *, has_backlog: bool = False, is_busy: bool = False) -> None:
        """Note its end.

        Args:
            has_backlog: it has left publishes behind.
        """
        self._batch_runs = False
        self._batch_s = self._elapsed_s()
        self._leaves_publishes = has_backlog
        if not is_busy:
            self._began_s = None
        elif self._began_s is None:
            self._began_s = self._batch_s

    @property
    def has_backlog(self) -> bool:
        """Whether the job works off a backlog."""
        return self._leaves_publishes and self._elapsed_s() - self._batch_s < BACKLOG_S

    @property
    def has_burst(self) -> bool:
        """Whether a burst goes on."""
        began_s, now_s = self._began_s, self._elapsed_s()
        if began_s is None or now_s - began_s >= BURST_S:
            return False
        return self._batch_runs or now_s - self._batch_s < CALM_S

    @property
    def puts_upkeep_off(self) -> bool:
        """Whether compaction and snapshots can wait for the end of either."""
        return self.has_backlog or self.has_burst
