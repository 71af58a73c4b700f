"""Who uses a queue: its consumers, and the lease of a queue with `expires` (R-QEXP-1 to R-QEXP-3).

A use is a consumer, a get or a declaration. While there is a consumer the lease does not run; it
starts anew when the last one leaves, and with every other use.
"""

from __future__ import annotations

from collections import deque
from heapq import heappush
from typing import TYPE_CHECKING

from streaming.broker.message import NEVER
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from streaming.broker.channels.streams import Consumer
    from streaming.broker.shard import Shard
    from streaming.broker.state.schema import QueueRecord


class QueueUse:
    """The part of a queue that knows its users.

    Attributes:
        consumers: all of them, oldest first, by key.
        waiting: those that can take a copy now, next first.
        had_consumer: whether there ever was one; such a queue can be deleted automatically.
        used_at_ms: last use in the sense of queue expiry (R-QEXP-2).
        expires_ms: how long it may be unused; None for ever.
        expiry_timer_ms: when to look whether it was; NEVER for no timer.
    """

    __slots__ = (
        "consumers",
        "expires_ms",
        "expiry_timer_ms",
        "had_consumer",
        "number",
        "shard",
        "used_at_ms",
        "waiting",
    )

    def __init__(self, shard: Shard, number: int, record: QueueRecord) -> None:
        self.shard = shard
        self.number = number
        self.consumers = list(record.consumers)
        self.waiting = deque(record.waiting)
        self.had_consumer = record.had_consumer
        self.used_at_ms = record.used_at_ms
        self.expires_ms: int | None = None
        self.expiry_timer_ms = record.expiry_timer_ms

    def add_consumer(self, consumer: Consumer) -> None:
        """Let a consumer wait for copies, behind the others (R-QUEUE-2)."""
        self.consumers.append(consumer.key)
        self.waiting.append(consumer.key)
        self.had_consumer = True

    def remove_consumer(self, consumer: Consumer) -> None:
        """Forget a consumer."""
        self.consumers.remove(consumer.key)
        if consumer.key in self.waiting:
            self.waiting.remove(consumer.key)
        if not self.consumers:
            self.touch()

    def touch(self) -> None:
        """Note a use; the lease of a queue with `expires` starts anew (R-QEXP-2)."""
        self.used_at_ms = self.shard.now_ms
        self.arm_expiry()

    def expires_at_ms(self) -> int:
        """When the queue is to be deleted for lack of use; NEVER with a consumer (R-QEXP-3)."""
        if self.expires_ms is None or self.consumers:
            return NEVER
        return self.used_at_ms + self.expires_ms

    def arm_expiry(self) -> None:
        """See to it that a timer is set not later than `expires_at_ms`."""
        due_ms = self.expires_at_ms()
        if due_ms < self.expiry_timer_ms:
            self.expiry_timer_ms = due_ms
            heappush(self.shard.timers, (due_ms, TimerKind.EXPIRE_QUEUE, self.number))
