"""The size of batches: short while the job keeps up, large while it works off a backlog.

A reject that arrives during a batch is read by the next one, so its row is visible after at most
two batches. Batches must therefore stay short under live traffic, even after a pause. A backlog is
the opposite: each batch has fixed costs, so large batches work it off sooner. After a batch of few
publishes, which is slow for each of them, the next may still be as large as one that was not.

Whether there is a backlog shows in the batches: one that reads as much as it may has left something
behind. Nobody has to configure the size for the traffic.

Replay: the size only limits what the next batch plans to read. Spark logs the planned offsets, and
a repeated batch reads those.

A batch has a cost whatever it holds, about 0.3 s of a core. Where fronts answer clients from the
same cores, a busy machine is better used by fewer batches: `interval_s`; in a burst that leaves no
core idle, by one behind it: `longest_wait_s`. There, a batch takes several times as long as behind
it, so its rows would hardly come sooner. And the log of a front has everything in one order:
shorter batches would show no reject sooner, and the last record later.

A backlog of commands must fit into memory too: `CommandPace`. While one waits, no publishes are
read: those that came after a declaration must not be routed before it.
"""

import math
from typing import Final

from streaming.machine_cores import LOOK_S
from streaming.pipeline.flow.batch_size import UNKNOWN_MEAN_BYTES

TARGET_S: Final = 0.5
"""How long a batch of live traffic should take."""

LEAST_ROWS: Final = 10_000
"""Batches may always be that large: below it, fixed costs outweigh the rows."""

GROWTH: Final = 4
"""How much larger the next batch may be after one that has left something behind."""

ROOM: Final = 2
"""How many times the publishes of a batch of TARGET_S may come at once."""

KEPT: Final = 0.9
"""A batch lets the rate of earlier ones count for this part, at least."""

FULL_SHARE: Final = 0.9
"""A batch with this part of what it may read is full; Spark rounds down for each partition."""


WORKING_PART: Final = 0.5
"""The part of the time that batches of busy traffic take, beside fronts."""

LONGEST_INTERVAL_S: Final = 1.5
"""Batches that take longer follow one another at once: the tables are behind as it is."""

LONGEST_WAIT_S: Final = 20.0
"""How long after the last batch began the next one waits for a core, at most."""

WAITING_PART: Final = 1 / 3
"""The part of `amqp.max_lag_ms`, of its `max_lag_bytes` and of `metrics.stalled_after_ms`."""

MUCH_RECORDS: Final = LEAST_ROWS
"""How many records of logs have to wait for a batch that waits for a core."""


def interval_s(publishes: int, seconds: float, most_s: float) -> float:
    """How long after a batch began the next should begin, beside fronts; 0: at once.

    Args:
        publishes: how many it has read. Few leave time for fronts, and their rows come first.
        seconds: how long it took.
        most_s: the longest interval; publishers wait for the tables if they are far behind.
    """
    if publishes < LEAST_ROWS or seconds < TARGET_S:
        return 0.0
    return min(seconds / WORKING_PART, LONGEST_INTERVAL_S, most_s)


def longest_wait_s(seconds: float, most_lag_s: float, stalled_s: float) -> float:
    """How long after a batch began the next may begin, while much waits and no core is idle.

    Args:
        seconds: how long it took. A short one shows that there was a core for it.
        most_lag_s: how far tables may be behind before publishers wait; 0 for any time.
        stalled_s: a job without a batch for so long counts as stalled.
    """
    if seconds < LOOK_S:
        return 0.0
    return min(LONGEST_WAIT_S, WAITING_PART * (most_lag_s or math.inf), WAITING_PART * stalled_s)


def is_worth_waiting(records: int, mean_bytes: float, most_lag_bytes: int) -> bool:
    """Whether a batch of logs should wait for a core: it is large, and publishers need not wait.

    Args:
        records: how many wait for it.
        mean_bytes: recent mean size of messages; 0: none has arrived yet.
        most_lag_bytes: how far tables may be behind before publishers wait; 0 for any number.
    """
    size = records * (mean_bytes or UNKNOWN_MEAN_BYTES)
    return records >= MUCH_RECORDS and size <= WAITING_PART * (most_lag_bytes or math.inf)


class Pace:
    """How many publishes the next batch should read at most.

    Args:
        max_rows: the most publishes of a batch, whatever the backlog.
        is_whole: any batch may read as much; only logs of fronts are read.

    Attributes:
        rows: the most publishes of the next batch. At first `max_rows`: what came while the job was
            down is a backlog.
        has_backlog: whether the last batch has left publishes behind.
        is_whole: as given.
    """

    def __init__(self, max_rows: int, *, is_whole: bool = False) -> None:
        self._max_rows = max_rows
        self.is_whole = is_whole
        self.rows = max_rows
        self.has_backlog = False
        self._rate = 0.0

    def batch_done(self, read: int, seconds: float, limit: int | None = None) -> None:
        """Choose the size of the next batch from what a batch has read, and how long it took.

        Args:
            limit: what the batch could read at most, if something else has limited it further.
        """
        most = self.rows if limit is None else limit
        self.has_backlog = bool(most) and read >= FULL_SHARE * most
        if self.is_whole or most != self.rows:
            return
        if read:
            self._rate = max(KEPT * self._rate, read / max(seconds, 0.001))
        if self.has_backlog:
            self.rows = min(self._max_rows, GROWTH * self.rows)
        elif read:
            live = int(ROOM * TARGET_S * self._rate)
            self.rows = min(self._max_rows, max(LEAST_ROWS, live))


class CommandPace:
    """How many commands the next batch may read at most.

    The first batch after a start reads LEAST_ROWS, because the size of commands is unknown:
    transactions have bodies. Later limits grow with the backlog, up to what fits into memory.

    Args:
        max_rows: the most commands of a batch.
        max_bytes: the most bytes of a batch's commands, estimated by the mean of the last one.

    Attributes:
        rows: the most commands of the next batch.
        has_backlog: whether the next batch leaves commands behind, as far as is known.
    """

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self.rows = min(max_rows, LEAST_ROWS)
        self.has_backlog = False

    def expect(self, commands: int) -> None:
        """Set how many commands wait for the first batch."""
        self.has_backlog = commands > self.rows

    def batch_done(self, commands: int, size_bytes: int) -> None:
        """Choose the limit of the next batch from what a batch has read."""
        self.has_backlog = commands >= FULL_SHARE * self.rows
        if not commands:
            return
        if self.has_backlog:
            self.rows = GROWTH * self.rows
        fits = int(self._max_bytes * commands / max(size_bytes, 1))
        self.rows = max(1, min(self.rows, self._max_rows, fits))
