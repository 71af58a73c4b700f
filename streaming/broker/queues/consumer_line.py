"""The consumers of one queue: who is next, and which is the single active one.

Consumers wait in line. The first in line gets the next copy and goes to the end. One without room
leaves the line, and rejoins at its end when it has room (R-QUEUE-2): in a classic queue when it is
its turn, in a quorum queue as soon as a delivery takes its last room.
"""

from collections import deque
from typing import Final

from streaming.broker.channels.channel import Consumer
from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.context import ShardContext
from streaming.broker.events import Kind
from streaming.broker.state.schema import QueueRecord
from topology.declarations import Queue as Declaration
from topology.validation.declaration_errors import SINGLE_ACTIVE_CONSUMER

NO_PREFETCH: Final = 2_000
"""What RabbitMQ takes for the prefetch of a consumer that has none."""


class ConsumerLine:
    """The consumers of one queue.

    Attributes:
        consumers: keys of all consumers, oldest first.
        waiting: keys of those in line, next first.
        ranked: whether consumers may have priorities: the line is in their order.
        single_active: whether only one consumer gets copies: `active`, while there is any.
    """

    __slots__ = (
        "_channels",
        "_compat",
        "_events",
        "_queue_name",
        "_quorum",
        "active",
        "consumers",
        "ranked",
        "single_active",
        "waiting",
    )

    def __init__(self, declaration: Declaration, record: QueueRecord) -> None:
        self._queue_name = declaration.name
        self._quorum = declaration.queue_type == "quorum"
        self.consumers = list(record.consumers)
        self.waiting = deque(record.waiting)
        self.ranked = record.ranked
        self.single_active = declaration.arguments.get(SINGLE_ACTIVE_CONSUMER) is True
        self.active = record.active

    def take_part(self, context: ShardContext, channels: ChannelRegistry) -> None:
        """Take part in a batch."""
        self._events = context.events
        self._compat = context.config.compat
        self._channels = channels

    def has_room(self) -> bool:
        """Whether a consumer in line would take a copy."""
        consumer = self._channels.consumer
        return any(consumer(key).has_room for key in self.waiting)

    def add(self, consumer: Consumer) -> None:
        """Put a new consumer at the end of the line of its priority (R-QUEUE-2, R-CONS-2)."""
        self.consumers.append(consumer.key)
        if consumer.priority:
            self.ranked = True
        if self.single_active:
            self._choose_active()
            if not consumer.in_line:
                consumer.channel.hold(consumer)
        else:
            self.join(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a cancelled consumer."""
        self.consumers.remove(consumer.key)
        if consumer.in_line:
            self._leave(consumer)
        if consumer.key == self.active:
            self.active = None
            self._choose_active()
        if not self.consumers:
            self.ranked = False

    def clear(self) -> None:
        """Note that all consumers were cancelled."""
        self.consumers.clear()
        self.waiting.clear()
        self.active = None

    def rejoin(self, consumer: Consumer) -> None:
        """Put a consumer that has room back in line, without serving it yet."""
        if not consumer.active or consumer.in_line:
            return
        if self.single_active:
            if consumer.key == self.active and not self._choose_active() and consumer.has_room:
                self.join(consumer)
        elif consumer.has_room:
            self.join(consumer)

    def join(self, consumer: Consumer) -> None:
        """Put a consumer behind all others of its priority and above."""
        consumer.in_line = True
        waiting = self.waiting
        place = len(waiting)
        if self.ranked:
            other = self._channels.consumer
            while place and other(waiting[place - 1]).priority < consumer.priority:
                place -= 1
        waiting.insert(place, consumer.key)

    def _leave(self, consumer: Consumer) -> None:
        consumer.in_line = False
        self.waiting.remove(consumer.key)
        consumer.channel.hold(consumer)

    def next(self) -> Consumer | None:
        """The first in line that has room; those before it leave the line. It gets a copy next."""
        waiting = self.waiting
        while waiting:
            consumer = self._channels.consumer(waiting[0])
            if consumer.deliveries.unacked < consumer.prefetch_window or consumer.passes_limiter():
                return consumer
            waiting.popleft()
            consumer.leave_line()
        return None

    # -- the single active consumer

    def _choose_active(self) -> bool:
        """Let the right consumer be the single active one (R-CONS-4 to R-CONS-6).

        Returns:
            Whether another consumer has the right to it, and the active one gets no more copies.
        """
        if self.active is None:
            if not self.consumers:
                return False
            self._activate(self._successor())
            return False
        priorities_take_over = self._quorum and self._compat != "3.10"
        if not (self.ranked and priorities_take_over):
            return False
        active = self._channels.consumer(self.active)
        best = self._successor()
        if best.priority <= active.priority:
            return False
        if active.in_line:
            self._leave(active)
        if not active.deliveries.unacked:
            self._activate(best)
        return True

    def _successor(self) -> Consumer:
        """The consumer with the most right to be the active one, of equals the oldest."""
        return max(map(self._channels.consumer, self.consumers), key=self._right_to_be_active)

    def _right_to_be_active(self, consumer: Consumer) -> tuple[int, int]:
        """A key; of equals in a quorum queue of 4.0, that with the larger prefetch (R-CONS-6)."""
        if not self._quorum:
            return consumer.priority, 0
        if self._compat == "3.10":
            return 0, 0
        return consumer.priority, consumer.prefetch or NO_PREFETCH

    def _activate(self, consumer: Consumer) -> None:
        self.active = consumer.key
        detail = {"what": "consumer_activated", "consumer": consumer.label}
        row = self._events.add(Kind.CHANNEL, self._queue_name, detail=detail)
        self._events.receivers[row] = consumer.channel.actor
        self.join(consumer)
