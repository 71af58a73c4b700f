"""Quorum queues: what happens on arrival, on requeue, and when limits change."""

from collections.abc import Iterable

from streaming.broker.channels.publishers import NO_SOURCE, Publisher
from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message
from streaming.broker.queues.queue import ACCEPTED, REFUSED, DeathOutbox, Queue
from streaming.broker.queues.ready_order import REQUEUED_POSITIONS, QuorumOrder
from streaming.broker.state.schema import LevelRecord, QueueRecord
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings

SOFT_LIMIT = (4, 5)
"""Blocked publishers go on when a queue falls to this fraction of its limits (R-LEN-15)."""


class QuorumQueue(Queue):
    """A quorum queue.

    With `reject-publish`, a message that makes it full blocks all its publishers until it falls to
    the soft limit (R-LEN-15). A change of its policy leaves them blocked (R-LEN-18).

    Attributes:
        limited: whether it has a length limit.
        rejects: whether it has one and `reject-publish`.
    """

    __slots__ = ("explicit_requeues_to_tail", "limited", "quorum_order", "rejects")

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
        self.limited = settings.has_length_limit
        self.rejects = settings.refuses_when_full
        self.explicit_requeues_to_tail = (
            self.context.config.compat == "3.10" and settings.delivery_limit is None
        )

    def _over_limit(self) -> bool:
        """Whether a limit is exceeded; held copies count too (R-LEN-17)."""
        return (
            self.ready + self.held.count > self.max_length
            or self.ready_bytes + self.held.bytes > self.max_bytes
        )

    def would_refuse(
        self,
        size: int,  # noqa: ARG002 - only what is there counts
        publisher: Publisher | None = None,
    ) -> bool:
        """Whether it is full, or has blocked this publisher (R-LEN-18)."""
        if publisher is None:
            return self._is_full()
        return self._refuses(publisher)

    def _is_full(self) -> bool:
        """Whether it refuses every publisher."""
        return self.rejects and self._over_limit()

    def _refuses(self, publisher: Publisher) -> bool:
        """Whether it refuses a message of this publisher, which is known from now on (R-LEN-18).

        Nobody needs to be known to a queue that cannot be full.
        """
        if not (self.limited or self.blocked):
            return False
        full = self._is_full()
        if full and not self.blocked:
            self._block()  # it was rebuilt
        return self.channels.publishers.refuses(self.number, publisher, full=full)

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
            if self._refuses((user, channel, NO_SOURCE)):
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

    def settled(self) -> None:
        """Drop heads, or block and unblock publishers (R-LEN-15, R-LEN-16, R-LEN-18)."""
        if self._over_limit():
            if self.rejects:
                self._block()
            else:
                self._drop_heads()
                self.sweep()
        if self.blocked:
            self._unblock_if_drained()

    def _block(self) -> None:
        """Block the publishers that are known."""
        self.channels.publishers.set_all(self.number, blocked=True)
        self.blocked = self.above_soft_limit = True

    def _unblock_if_drained(self) -> None:
        """Unblock all publishers if the queue fell to the soft limit, or lost its limits."""
        was_above = self.above_soft_limit
        if self.limited:
            self.above_soft_limit = not self._is_below_soft_limit()
            if not self.rejects or self.above_soft_limit or not was_above:
                return
        else:
            self.above_soft_limit = True
            if self.context.config.compat == "3.10":  # does not unblock them then
                return
        self.blocked = False
        self.channels.publishers.set_all(self.number, blocked=False)

    def _drop_heads(self) -> None:
        """Let heads die until the limits hold; the last one is dead-lettered first (R-LEN-16)."""
        deaths = self.deaths
        before = len(deaths)
        while self.ready and self._over_limit():
            self.die(self.take(), "maxlen")
        deaths.extend([deaths.pop() for _ in range(len(deaths) - before)])

    def _is_below_soft_limit(self) -> bool:
        """Whether it is at or below the soft limit (R-LEN-15)."""
        part, whole = SOFT_LIMIT
        return (
            self.ready + self.held.count <= self.max_length * part // whole
            and self.ready_bytes + self.held.bytes <= self.max_bytes * part // whole
        )

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
