"""Quorum queues: what happens on arrival, on requeue, and when limits change."""

from collections.abc import Iterable

from streaming.broker.channels.publishers import NO_SOURCE
from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message
from streaming.broker.queues.length_limits import QuorumLengthLimits
from streaming.broker.queues.queue import ACCEPTED, REFUSED, DeathOutbox
from streaming.broker.queues.ready_order import REQUEUED_POSITIONS, QuorumOrder
from streaming.broker.state.schema import LevelRecord, QueueRecord
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings


class QuorumQueue(QuorumLengthLimits):
    """A quorum queue."""

    __slots__ = ("explicit_requeues_to_tail", "quorum_order")

    sweep_timer = TimerKind.SWEEP_QUORUM

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
        self.may_expire = True
        self.order = self.quorum_order = QuorumOrder(
            context.store,
            number,
            record.levels,
            two_levels=context.config.compat != "3.10",
            taken=record.taken,
            next_requeued=record.next_return or REQUEUED_POSITIONS,
        )
        self.apply_settings(settings)

    def new_order(self, levels: list[LevelRecord]) -> QuorumOrder:
        """The order of this type of queue, with these ready copies.

        Resets the two-to-one counter; positions continue.
        """
        self.quorum_order = QuorumOrder(
            self.context.store,
            self.number,
            levels,
            two_levels=self.context.config.compat != "3.10",
            taken=0,
            next_requeued=self.quorum_order.next_requeued,
        )
        return self.quorum_order

    def apply_settings(self, settings: QueueSettings) -> None:
        """Set the settings in force, without acting on them (see `settings_changed`)."""
        super().apply_settings(settings)
        self.explicit_requeues_to_tail = (
            self.context.config.compat == "3.10" and settings.delivery_limit is None
        )

    def arrive(
        self,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        base_ms: int,
        failures: int = 0,
    ) -> int:
        """Append; expire from the head and hand out; then limits.

        Only publishers learn of a full queue: dead letters sent at most once are accepted.
        """
        if parent_copy_id == NO_COPY and (self.limited or self.blocked):
            user, channel = self.context.actor
            if self.refuses_of((user, channel, NO_SOURCE)):
                return REFUSED
        copy = self.new_copy(message, envelope, parent_copy_id, base_ms)
        copy.failures = failures
        self.order.push(copy)
        self.ready += 1
        self.ready_bytes += message.size
        if copy.deadline_ms > self.clock.now_ms:
            self._settle_down()
        else:
            self._settle_moribund()
        return ACCEPTED

    def serve(self) -> None:
        """Hand out ready copies; the limits act on what is left (R-LEN-19)."""
        super().serve()
        self.settled()

    def _settle_down(self) -> None:
        """After a change: expired heads die, consumers are served, then the limits act."""
        self.sweep()
        self.serve()

    def _settle_moribund(self) -> None:
        """After a message with time to live 0: consumers and limits come first, expiry next.

        RabbitMQ lets such a message live to the end of the millisecond.
        """
        self.serve()
        self.sweep()
        self.settled()

    def before_get(self) -> None:
        """Let expired heads die before one is handed out."""
        self.sweep()

    def after_take(self) -> None:
        """Let the next head expire if it is past its deadline (R-TTL-3)."""
        super().after_take()
        self.settled()

    def put_back(
        self, copies: Iterable[Copy], *, explicitly: bool, cause: str | None = None
    ) -> None:
        """Put copies in front, in order of return, or let them die (R-SET-7, R-DLV-2)."""
        limit = self.settings.delivery_limit
        lost = not explicitly and self.context.config.compat != "3.10"
        to_tail = explicitly and self.explicit_requeues_to_tail
        for copy in copies:
            if lost:
                copy.failures += 1
            if limit is not None and copy.requeue_count > limit:
                self.die(copy, "delivery_limit", cause)
                continue
            if to_tail:
                copy.position = self.next_position
                self.next_position += 1
                self.order.push(copy)
            else:
                self.order.put_back(copy, 0)
            self.add_requeued(copy, cause)
        self._settle_down()

    # -- use: who holds messages of it counts as a consumer (R-QEXP-5)

    def consumer_count(self) -> int:
        """How many consumers it has, and how many gets and former consumers hold messages of it.

        Reads all that its gets have not settled.
        """
        consumers = list(map(self.channels.consumer, self.line.consumers))
        labels = {(one.channel.number, one.label) for one in consumers}
        gets = 0
        for channel in map(self.channels.by_number, self.unacked_on):
            gets += sum(one.queue_number == self.number for one in channel.gets.deliveries)
            labels.update(
                (channel.number, one.label)
                for one in channel.consumers.values()
                if one.number and one.queue_number == self.number and one.deliveries.unacked
            )
        return gets + len(labels)

    def ack_all(self, channel_number: int, copies: list[Copy]) -> None:
        """Let unacked copies of one channel go."""
        super().ack_all(channel_number, copies)
        self._rest_if_unused()

    def reclaim(self, channel_number: int, copy: Copy) -> None:
        """Count a copy as unacked no more."""
        super().reclaim(channel_number, copy)
        self._rest_if_unused()

    def _rest_if_unused(self) -> None:
        """Let its expiry begin if nobody holds a message of it any more."""
        if self.expires_ms is not None and not self.unacked and not self.line.consumers:
            self.touch()

    def expires_at_ms(self) -> int:
        """When it is to be deleted for lack of use; NEVER while it has a consumer (R-QEXP-5)."""
        return NEVER if self.unacked else super().expires_at_ms()

    def settings_changed(self) -> None:
        """Limits and expiry act; the queue's own expiry starts again (R-POL-8)."""
        self.settled()
        self.sweep()
        self.touch()

    def save(self) -> QueueRecord:
        """Write pages and return the record. Do not use the queue afterwards."""
        record = super().save()
        record.taken = self.quorum_order.taken
        record.next_return = self.quorum_order.next_requeued
        return record
