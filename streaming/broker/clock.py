"""The time of a shard: a clock that only records move, and the timers that it passes.

With `clock = wall` the clock follows the records' timestamps up to the batch's instant, and goes to
that instant when the batch ends; with `event` only records move it. It never goes back. Timers due
up to where it goes fire on the way, each at its own time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop
from typing import TYPE_CHECKING

from streaming.broker.message import NEVER

if TYPE_CHECKING:
    from streaming.broker.config import ShardConfig
    from streaming.broker.events import Events
    from streaming.broker.timers import Timer


class ShardTime(ABC):
    """What a shard knows of time.

    Args:
        now_ms: where the clock stood after the last batch, epoch milliseconds.
        batch_ms: with `clock = wall` the batch's instant; with `event` ignored.
        timers: to start with; put in order here.

    Attributes:
        second: of the clock, as death records have it (R-DEATH-1).
        heading_ms: where time is moving to.
        publish_base_ms: when the time to live of a message published now begins (D4).
        late_ms: how late a shard that was away is called (D4); 0 if it was not.
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
        self.config = config
        self.events = events
        self.timers = timers
        heapify(timers)
        self.now_ms = now_ms
        self.second = now_ms // 1000
        self.heading_ms = now_ms
        self.batch_ms = batch_ms
        wall = config.clock == "wall"
        self.publish_base_ms = max(batch_ms, now_ms) if wall else now_ms
        late_ms = batch_ms - timers[0][0] if wall and timers else 0
        self.late_ms = late_ms if late_ms > config.away_ms else 0
        events.times.append((0, now_ms))

    @abstractmethod
    def fire(self, due_ms: int, kind: int, number: int) -> None:
        """Let a timer act, unless it is stale; the clock is there."""

    @abstractmethod
    def second_passed(self) -> None:
        """The clock is in another second: death records made from now on differ."""

    def advance(self, at_ms: int) -> None:
        """Let time pass up to an instant, as a record at that time would."""
        if at_ms <= self.now_ms:
            return
        if self.config.clock == "wall" and at_ms > self.batch_ms:
            at_ms = self.batch_ms
        self.heading_ms = at_ms
        timers = self.timers
        while timers and timers[0][0] <= at_ms:
            due_ms, kind, number = heappop(timers)
            if due_ms > self.now_ms:
                self._set_clock(due_ms)
            self.fire(due_ms, kind, number)
        if at_ms > self.now_ms:
            self._set_clock(at_ms)

    def _set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        second = now_ms // 1000
        if second != self.second:
            self.second = second
            self.second_passed()
        if self.config.clock == "event":
            self.publish_base_ms = now_ms
        self.events.times.append((len(self.events), now_ms))

    def moved_on(self, due_ms: int) -> int:
        """When a lease that was due at this time is due, lateness considered."""
        if self.late_ms and due_ms <= self.batch_ms:
            return due_ms + self.late_ms
        return due_ms

    def next_deadline_ms(self) -> int:
        """The earliest timer, perhaps a stale one; NEVER for none."""
        return self.timers[0][0] if self.timers else NEVER
