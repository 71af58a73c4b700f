"""The job's time with `clock = wall`: the wall clock's, but it never goes back (D4).

If the wall clock is set back by an hour, the job's time continues an hour ahead of it, and a tenth
slower until the two agree again; otherwise, the step would delay all deadlines. If the wall clock
is set forward, the job's time follows. The monotonic clock tells how much time has really passed.

Replay: a batch that runs again must have the same timestamp. If it is not the one that Spark logged
for the batch, it is stored in the checkpoint's folder before the batch runs.
"""

import logging
import threading
import time

import msgspec

from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.storage.json_file import read_json_file, write_json_file

FILE = "clock.json"

STEP_MS = 250
"""A smaller difference was adjusted gradually, or read late: the clock was not set."""
SLOWDOWN = 10
"""Time that is ahead of the wall clock loses one part in this many."""
_SAME_INSTANT_NS = 20_000_000
_TRIES = 5

_REMEDY = (
    "Move it away: a batch that runs again, if there is one, then has the timestamp that Spark "
    "logged for it"
)

logger = logging.getLogger(__name__)


class StoredTimestamp(msgspec.Struct, frozen=True):
    """The timestamp of the last batch for which it differed from the one that Spark logged."""

    batch_id: int
    now_ms: int


class JobClock:
    """The job's time; safe to use from any thread.

    Args:
        last_ms: the job's time at the last batch of an earlier run; 0 if there was none.
        is_wall: whether `clock = wall`; otherwise the timestamps of batches mean nothing.
    """

    def __init__(self, checkpoint: Checkpoint, last_ms: int, *, is_wall: bool) -> None:
        self._is_wall = is_wall
        self._path = checkpoint.path / FILE
        self._stored = read_json_file(self._path, StoredTimestamp, _REMEDY)
        self._begun = checkpoint.logs.last_planned()
        self._lock = threading.Lock()
        self._wall_ms, self._passed_ms = _read_clocks()
        if self._stored is not None:
            last_ms = max(last_ms, self._stored.now_ms)
        if self._begun is not None:
            last_ms = max(last_ms, checkpoint.logs.offsets(self._begun).now_ms)
        self._ahead_ms = 0.0
        if is_wall and last_ms - self._wall_ms > STEP_MS:
            self._ahead_ms = last_ms - self._wall_ms
            self._warn(self._ahead_ms)

    def now_ms(self) -> int:
        """Return the job's time in epoch milliseconds."""
        with self._lock:
            self._update()
            return int(self._wall_ms + self._ahead_ms)

    def of_batch(self, batch_id: int, planned_ms: int) -> int:
        """Return the timestamp of a batch, the same for every run of it.

        Args:
            planned_ms: the wall clock when Spark planned the batch.
        """
        if not self._is_wall:
            return planned_ms
        with self._lock:
            if self._stored is not None and self._stored.batch_id == batch_id:
                return self._stored.now_ms
            if self._begun is not None and batch_id <= self._begun:
                return planned_ms  # any other timestamp of that run would have been stored
            self._update()
            if not self._ahead_ms:
                return planned_ms
            now_ms = int(self._wall_ms + self._ahead_ms)
            self._stored = StoredTimestamp(batch_id, now_ms)
            write_json_file(self._path, self._stored)
            return now_ms

    def _update(self) -> None:
        """Account for changes of the wall clock since the last call."""
        wall_ms, passed_ms = _read_clocks()
        elapsed_ms = passed_ms - self._passed_ms
        step_ms = wall_ms - self._wall_ms - elapsed_ms
        self._wall_ms, self._passed_ms = wall_ms, passed_ms
        if step_ms < -STEP_MS:
            self._ahead_ms -= step_ms
            self._warn(-step_ms)
        elif step_ms > STEP_MS:
            self._ahead_ms = max(0.0, self._ahead_ms - step_ms)
        self._ahead_ms = max(0.0, self._ahead_ms - elapsed_ms / SLOWDOWN)

    def _warn(self, back_ms: float) -> None:
        logger.warning(
            "the clock of this machine was set back by %.1f s. The job's time continues %.1f s "
            "ahead of it, and runs slower until they agree",
            back_ms / 1000,
            self._ahead_ms / 1000,
        )


def _read_clocks() -> tuple[float, float]:
    """Read the wall clock and the monotonic clock at one instant, in milliseconds."""
    tries = 0
    while True:
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        tries += 1
        if after_ns - before_ns < _SAME_INSTANT_NS or tries == _TRIES:
            return wall_ns / 1e6, after_ns / 1e6
