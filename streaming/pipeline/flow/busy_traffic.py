"""A burst of traffic beside fronts: until it is over, clients have what upkeep would take.

A batch is busy if it lets the next one wait (`pace.interval_s`). A minute of busy batches is no
burst any more: compaction and snapshots may not wait for the end of that.
"""

import time
from collections.abc import Callable
from typing import Final

BURST_S: Final = 60.0
"""The longest burst."""

CALM_S: Final = 5.0
"""After so long without a batch, a burst is over."""


class Burst:
    """Whether there is a burst of traffic.

    Args:
        elapsed_s: a clock that never goes back.
    """

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        self._began_s: float | None = None
        self._batch_s = 0.0
        self._batch_runs = False

    def batch_began(self) -> None:
        """Note that a batch runs; behind a pause, a burst begins anew."""
        if self._elapsed_s() - self._batch_s >= CALM_S:
            self._began_s = None
        self._batch_runs = True

    def batch_done(self, *, is_busy: bool) -> None:
        """Note its end."""
        self._batch_runs = False
        self._batch_s = self._elapsed_s()
        if not is_busy:
            self._began_s = None
        elif self._began_s is None:
            self._began_s = self._batch_s

    @property
    def goes_on(self) -> bool:
        """Whether it does."""
        began_s, now_s = self._began_s, self._elapsed_s()
        if began_s is None or now_s - began_s >= BURST_S:
            return False
        return self._batch_runs or now_s - self._batch_s < CALM_S
