"""The job's time with `clock = wall`: the wall's, but for its steps back (D4).

    wall put back by an hour  -->  the job's time goes on as before, an hour ahead of the wall,
                                   and a tenth slower until the two agree again
    wall put forward          -->  the job's time goes along

The shards' clocks never go back. With the wall's time alone a step back would hold all deadlines
up until the wall is where it was; the monotonic clock tells how much time has really passed.

Replay: a batch that is run again must have the same instant. Where that is not the one that Spark
logged with the batch, it is kept beside the checkpoint before the batch runs.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec

from streaming.pipeline.checkpoint.json_file import read_kept

if TYPE_CHECKING:
    from streaming.pipeline.checkpoint.checkpoint import Checkpoint

FILE = "clock.json"

STEP_MS = 250
"""A wall that is off by less than this was slewed, or read late, and not put back."""
SLOWER_BY = 10
"""Time that is ahead of the wall loses one part in so many."""
_SAME_INSTANT_NS = 20_000_000
_TRIES = 5

_REMEDY = (
    "Move it away: the batch that is run again, if there is one, then has the instant that Spark "
    "logged for it"
)

logger = logging.getLogger(__name__)


class KeptInstant(msgspec.Struct, frozen=True):
    """The instant of the last batch whose instant was not the one that Spark logged."""

    batch_id: int
    now_ms: int


class JobClock:
    """The job's time. Any thread may ask.

    Args:
        checkpoint: beside which instants are kept.
        last_ms: the job's time at the last batch of an earlier run; 0 if there was none.
        is_wall: whether `clock = wall`; else the instants of batches mean nothing.

    Raises:
        DamagedFileError: clock.json cannot be read.
    """

    def __init__(self, checkpoint: Checkpoint, last_ms: int, *, is_wall: bool) -> None:
        self._is_wall = is_wall
        self._path = checkpoint.path / FILE
        self._kept = read_kept(self._path, KeptInstant, _REMEDY)
        self._begun = checkpoint.last_planned()
        self._lock = threading.Lock()
        self._wall_ms, self._passed_ms = _read()
        if self._kept is not None:
            last_ms = max(last_ms, self._kept.now_ms)
        if self._begun is not None:
            last_ms = max(last_ms, checkpoint.offsets(self._begun).now_ms)
        self._ahead_ms = 0.0
        if is_wall and last_ms - self._wall_ms > STEP_MS:
            self._ahead_ms = last_ms - self._wall_ms
            self._tell(self._ahead_ms)

    def now_ms(self) -> int:
        """The job's time, epoch milliseconds."""
        with self._lock:
            self._look()
            return int(self._wall_ms + self._ahead_ms)

    def of_batch(self, batch_id: int, planned_ms: int) -> int:
        """The instant of a batch; the same whenever it is run.

        Args:
            planned_ms: the wall's time when Spark planned it.
        """
        if not self._is_wall:
            return planned_ms
        with self._lock:
            if self._kept is not None and self._kept.batch_id == batch_id:
                return self._kept.now_ms
            if self._begun is not None and batch_id <= self._begun:
                return planned_ms  # had it run with another instant, that would have been kept
            self._look()
            if not self._ahead_ms:
                return planned_ms
            instant = int(self._wall_ms + self._ahead_ms)
            self._keep(KeptInstant(batch_id, instant))
            return instant

    def _look(self) -> None:
        """Learn what the wall did since the last look."""
        wall_ms, passed_ms = _read()
        elapsed_ms = passed_ms - self._passed_ms
        step_ms = wall_ms - self._wall_ms - elapsed_ms
        self._wall_ms, self._passed_ms = wall_ms, passed_ms
        if step_ms < -STEP_MS:
            self._ahead_ms -= step_ms
            self._tell(-step_ms)
        elif step_ms > STEP_MS:
            self._ahead_ms = max(0.0, self._ahead_ms - step_ms)
        self._ahead_ms = max(0.0, self._ahead_ms - elapsed_ms / SLOWER_BY)

    def _tell(self, back_ms: float) -> None:
        logger.warning(
            "the clock of this machine was put back by %.1f s: the job's time goes on, %.1f s "
            "ahead of it, and slower until they agree",
            back_ms / 1000,
            self._ahead_ms / 1000,
        )

    def _keep(self, instant: KeptInstant) -> None:
        self._kept = instant
        unfinished = self._path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(instant))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)


def _read() -> tuple[float, float]:
    """The wall's time and the monotonic clock's at one instant, in milliseconds."""
    tries = 0
    while True:
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        tries += 1
        if after_ns - before_ns < _SAME_INSTANT_NS or tries == _TRIES:
            return wall_ns / 1e6, after_ns / 1e6
