"""Classic queues: what happens on arrival, on requeue, and when limits change.

How long copies stay, and that only the head expires, is for both kinds (`time_to_live.py`).
"""

from collections.abc import Iterable
from typing import Final

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.context import ShardContext
from streaming.broker.events import DIED, ENQUEUED
from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.queues.length_limits import ClassicLengthLimits
from streaming.broker.queues.queue import (
    ACCEPTED,
    NO_PLANS,
    REFUSED,
    REJECTED_TO_DLX,
    DeathOutbox,
)
from streaming.broker.queues.ready_order import ClassicOrder, Order, classic_order
from streaming.broker.state.schema import LevelRecord, QueueRecord
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings

MAX_RESTING_COPIES: Final = 16
"""A queue with more ready copies is not kept between batches: its record is large."""


class ClassicQueue(ClassicLengthLimits):
    """A classic queue, with priorities if it was declared with `x-max-priority`.

    Attributes:
        by_arrival: its order, if it has no priorities; `arrive` and `take` use its fifo directly,
            which saves a fifth of the fold of a message that dies once (`dlx bench core`).
    """

    __slots__ = ("by_arrival", "max_priority")

    def __init__(
        self,
        context: ShardContext,
        channels: ChannelRegistry,
        outbox: DeathOutbox,
        number: int,
        declaration: Declaration,
        settings: QueueSettings,
        record: QueueRecord,
    ) -> None:
        super().__init__(context, channels, outbox, number, declaration, record)
        self.max_priority = settings.max_priority
        self.order: Order = self.new_order(record.levels)
        self.apply_settings(settings)

    def new_order(self, levels: list[LevelRecord]) -> Order:
        """The order of this type of queue, with these ready copies."""
        order = classic_order(self.context.store, self.number, self.max_priority, levels)
        self.by_arrival = order if isinstance(order, ClassicOrder) else None
        return order

    def can_rest(self) -> bool:
        """Whether this queue, just saved, equals one that is read from its record."""
        order = self.by_arrival
        if order is None or order.requeued is not None or self.held.has_buffer:
            return False
        fifo = order.fifo
        if fifo.front is not fifo.back or len(fifo.back) > MAX_RESTING_COPIES or self.paused:
            return False
        return not fifo.pages

    def bind(self, context: ShardContext, channels: ChannelRegistry, outbox: DeathOutbox) -> None:
        """Take part in another batch: nothing but the state stays of the one before."""
        self._take_part(context, channels, outbox)
        assert self.by_arrival is not None
        self.by_arrival.fifo.store = context.store
        self.death_plans = NO_PLANS
        self.may_expire = self.may_expire and bool(self.ready or self.unacked)

    def arrive(
        self,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        base_ms: int,
        failures: int = 0,
    ) -> int:
        """Refuse, hand over, append, drop the head, expire; in that order (R-QUEUE-4)."""
        if self.refuses and self.would_refuse(message.size):
            if self.settings.overflow != "reject-publish-dlx":
                return REFUSED
            self._die_on_arrival(message, envelope, parent_copy_id, failures)
            return REJECTED_TO_DLX
        if self.ttl_ms is None and envelope.ttl_ms is None:  # `new_copy` without a deadline
            events = self.events
            kinds = events.kinds
            position = self.next_position
            self.next_position = position + 1
            copy_id = events.first_seq + len(kinds)
            copy = Copy(copy_id, message, envelope, position, NEVER, parent_copy_id)
            kinds.append(ENQUEUED)
            events.queues.append(self.name)
            events.copies.append(copy)
            events.numbers.append(position)
        else:
            copy = self.new_copy(message, envelope, parent_copy_id, base_ms)
        if failures:
            copy.failures = failures
        waiting = self.line.waiting
        if waiting and not self.ready:
            consumer = self.channels.consumer(waiting[0])
            if (
                consumer.deliveries.unacked < consumer.prefetch_window
            ):  # `line.next`, for nearly every copy
                self.hand_over(copy, consumer)
                return ACCEPTED
            receiver = self.line.next()
            if receiver is not None:
                self.hand_over(copy, receiver)
                return ACCEPTED
        by_arrival = self.by_arrival
        if by_arrival is None:
            self.order.push(copy)
        else:
            fifo = by_arrival.fifo
            back = fifo.back
            back.append(copy)
            if len(back) >= fifo.spill_copies:
                fifo.spill()
        self.ready = ready = self.ready + 1
        self.ready_bytes += message.size
        if self.drops_head and (ready > self.max_length or self.ready_bytes > self.max_bytes):
            self.drop_head()
            if self.may_expire:
                self.sweep()
        elif ready == 1 and copy.deadline_ms != NEVER:
            self.sweep()
        return ACCEPTED

    def take(self) -> Copy:
        """Remove the head; the caller records what becomes of it, then calls `after_take`."""
        by_arrival = self.by_arrival
        if by_arrival is None or by_arrival.requeued:
            copy = self.order.pop()
        else:
            fifo = by_arrival.fifo
            copy = (fifo.front or fifo.fill()).popleft()
        self.ready -= 1
        self.ready_bytes -= copy.message.size
        return copy

    def _die_on_arrival(
        self, message: Message, envelope: Envelope, parent_copy_id: int, failures: int
    ) -> None:
        """Dead-letter a refused message that never was in the queue; one event says both."""
        copy_id = self.events.next_seq
        copy = Copy(copy_id, message, envelope, -1, NEVER, parent_copy_id, 0, failures)
        index = self.events.add_death(DIED, self.name, copy)
        self.deaths.append((self, copy, "maxlen", index))

    def put_back(
        self,
        copies: Iterable[Copy],
        *,
        explicitly: bool,  # noqa: ARG002 - quorum's
        cause: str | None = None,
    ) -> None:
        """Return copies to their places, then limits, expiry, consumers (R-SET-2, R-LEN-4)."""
        for copy in copies:
            self.order.put_back(copy, self.events.next_seq)
            self.add_requeued(copy, cause)
        if self.drops_head:
            self.drop_head()
        self.sweep()
        self.serve()

    def place(self, copy: Copy) -> tuple[int, int]:
        """The sort key of the copies in the queue, ready or not (R-QPID-10)."""
        top = self.max_priority
        return (0 if top is None else -min(copy.envelope.priority, top), copy.position)

    def settings_changed(self) -> None:
        """Trim at once; deadlines stay; the queue's own expiry starts again (R-POL-8)."""
        if self.drops_head:
            self.drop_head()
        self.timer_ms = NEVER
        self.sweep()
        self.touch()
