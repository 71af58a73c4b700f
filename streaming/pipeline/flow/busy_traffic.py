"""What upkeep waits for: a backlog that is worked off, and a burst of traffic beside fronts.

A batch is busy if it has read much and took long (`pace.interval_s`). Busy batches that follow one
another are a burst, in which clients have what upkeep would take. The first of them may last as
long as the burst, so a busy machine is a burst, too. A burst that lasts longer than a minute does
not count any more: compaction and snapshots cannot wait for its end.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from streaming.machine_cores import LOOK_S, Cores

BACKLOG_S: Final = 60.0
"""After so long without a batch, nothing waits any more for a backlog to be worked off."""

BURST_S: Final = 60.0
"""The longest burst."""

CALM_S: Final = 5.0
"""After so long without a batch, or with cores that are left, a burst is over: what upkeep begins
in a short pause would take processor time from the next one."""


class BusyTraffic:
    """Whether there is a backlog or a burst, as batches and cores say.

    Args:
        cores: of this machine, if fronts share them.
        elapsed_s: a clock that never goes back.
    """

    def __init__(
        self, cores: Cores | None = None, elapsed_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._cores = cores
        self._one_at_a_time = threading.Lock()
        self._machine_began_s: float | None = None  # a burst without a calm moment
        self._machine_busy_s = 0.0  # the last look that found no core left
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

    def has_burst(self) -> bool:
        """Look whether a burst goes on. What waits for its end asks again and again."""
        return self._has_busy_batches() or self._has_busy_machine()

    def puts_upkeep_off(self) -> bool:
        """Look whether compaction and snapshots can wait for the end of a backlog or a burst."""
        return self.has_burst() or self.has_backlog

    def _has_busy_batches(self) -> bool:
        began_s, now_s = self._began_s, self._elapsed_s()
        if began_s is None or now_s - began_s >= BURST_S:
            return False
        return self._batch_runs or now_s - self._batch_s < CALM_S

    def _has_busy_machine(self) -> bool:
        cores = self._cores
        if cores is None:
            return False
        with self._one_at_a_time:
            now_s = self._elapsed_s()
            if cores.since_s >= LOOK_S and cores.look():
                if self._machine_began_s is None:
                    self._machine_began_s = now_s
                self._machine_busy_s = now_s
            elif now_s - self._machine_busy_s >= CALM_S:
                self._machine_began_s = None
            began_s = self._machine_began_s
            return began_s is not None and now_s - began_s < BURST_S
