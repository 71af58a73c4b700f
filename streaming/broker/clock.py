"""The clock of a shard, moved only by its records, and the timers that it passes.

With `clock = wall` the clock follows the records' timestamps up to the batch's instant, and moves
to that instant when the batch ends; with `event` only records move it. It never goes back. Timers
that are due on the way fire at their own time, in order of deadline, then of kind, then of number,
wherever the log was cut.

A timer on the heap may be stale: the object it is for knows which deadline counts.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from heapq import heapify, heappop, heappush

from streaming.broker.config import ShardConfig
from streaming.broker.events import Events
from streaming.broker.message import NEVER


class TimerKind(IntEnum):
    """What a timer is for; timers of one instant fire in this order."""

    WAKE_QUEUES = 0  # a queue at rest has a timer then: some queue of a group; below 0, that one
    WAKE_CHANNELS = 1  # likewise
    SWEEP_CLASSIC = 2  # expired messages; quorum queues take longer (R-QUEUE-5, R-TTL-12)
    SWEEP_QUORUM = 3
    RETRY_HELD = 4
    CONSUMER_TIMEOUT = 5
    LEASE = 6
    EXPIRE_QUEUE = 7
    CONTINUE = 8  # unfinished work on very many copies
    REDRIVE = 9  # letters that a redrive moves next


MIN_CROWD = 1_024
"""With fewer timers, nobody looks for stale ones."""

Timer = tuple[int, int, int]
"""Deadline in epoch milliseconds, TimerKind, number of the queue, channel or group."""


class Clock:
    """The time of one shard during one batch.

    Args:
        now_ms: the time after the last batch, epoch milliseconds.
        batch_ms: with `clock = wall` the batch's instant; with `event` ignored.
        timers: the initial timers, in any order.

    Attributes:
        second: of the clock, as death records have it (R-DEATH-1).
        heading_ms: the time that the clock is moving to.
        publish_base_ms: when the time to live of a message published now begins (D4).
    """

    def __init__(
        self,
        config: ShardConfig,
        events: Events,
        timers: list[Timer],
        *,
        now_ms: int,
        batch_ms: int,
    ) -> None:
        self._events = events
        self._timers = timers
        heapify(timers)
        self._crowded = 2 * len(timers) + MIN_CROWD
        self._wall = config.clock == "wall"
        self.now_ms = now_ms
        self.second = now_ms // 1000
        self.heading_ms = now_ms
        self.batch_ms = batch_ms
        self.publish_base_ms = max(batch_ms, now_ms) if self._wall else now_ms
        late_ms = batch_ms - timers[0][0] if self._wall and timers else 0
        self._late_ms = late_ms if late_ms > config.away_ms else 0
        events.times.append((0, now_ms))

    def arm(self, due_ms: int, kind: int, number: int) -> None:
        """Set a timer."""
        heappush(self._timers, (due_ms, kind, number))

    def is_next(self, due_ms: int, kind: int) -> bool:
        """Whether the next timer is due at this instant, and of this kind."""
        timers = self._timers
        return bool(timers) and timers[0][0] == due_ms and timers[0][1] == kind

    @property
    def moves_until_ms(self) -> int:
        """To which instant the record moves the clock; with `clock = wall`, the batch."""
        return self.batch_ms if self._wall else self.heading_ms

    def advance(self, at_ms: int) -> Iterator[Timer]:
        """Move to an instant as a record at that time would; yield each timer when it is due."""
        if self._wall and at_ms > self.batch_ms:
            at_ms = self.batch_ms
        if at_ms <= self.now_ms:
            return
        self.heading_ms = at_ms
        timers = self._timers
        while timers and timers[0][0] <= at_ms:
            timer = heappop(timers)
            if timer[0] > self.now_ms:
                self._set(timer[0])
            yield timer
        if at_ms > self.now_ms:
            self._set(at_ms)

    def finish(self) -> Iterator[Timer]:
        """With `clock = wall`, move to the batch's instant."""
        return self.advance(self.batch_ms if self._wall else self.now_ms)

    def _set(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.second = now_ms // 1000
        if not self._wall:
            self.publish_base_ms = now_ms
        self._events.times.append((len(self._events), now_ms))

    def drop_stale(self, is_live: Callable[[Timer], bool]) -> None:
        """Drop stale timers once they may be most of all.

        A shard that stays open would keep those of closed channels and deleted queues until they
        are due.
        """
        timers = self._timers
        if len(timers) > self._crowded:
            timers[:] = filter(is_live, timers)
            heapify(timers)
            self._crowded = 2 * len(timers) + MIN_CROWD

    def postponed(self, due_ms: int) -> int:
        """When a lease due at this time really ends: leases stop while a shard is away (D4)."""
        if self._late_ms and due_ms <= self.batch_ms:
            return due_ms + self._late_ms
        return due_ms

    def next_deadline_ms(self) -> int:
        """The earliest timer, possibly a stale one; NEVER if there is none."""
        return self._timers[0][0] if self._timers else NEVER
