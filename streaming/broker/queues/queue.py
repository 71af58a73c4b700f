r"""One queue: the copies it holds, its consumers, and what arriving and returning do.

       arrive --> ready ---take---> unacked --settled--> gone (acked, or dead: rejected)
                  ^  |  \              |
                  |  |   +--> dead: expired (at the head only), maxlen
                  |  |                 |
                  +--+---- put back <--+--> dead: delivery_limit (quorum)

Rule 1: only methods here and in `classic.py` and `quorum.py` move copies along the arrows.
Rule 2: every arrow appends one event. A death also appends an entry to the outbox; dead letters are
        planned and delivered later, by `dead_letters`.
Rule 3: limits and expiry look at ready copies only (R-QUEUE-1, R-LEN-3, R-TTL-5).
Rule 4: a queue never has both ready copies and a waiting consumer with room, unless it is `paused`:
        handing out very many copies continues later (`unfinished.py`).
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from streaming.broker.channels.channel import TAG_BITS, Consumer
from streaming.broker.channels.publishers import Publisher
from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.events import CONSUMED, DELIVERED, DIED, ENQUEUED, PENDING, Kind
from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.outbound import DeliveryOut
from streaming.broker.queues import step_size
from streaming.broker.queues.consumer_line import ConsumerLine
from streaming.broker.queues.consumer_timeout import timeout_ms
from streaming.broker.queues.held_copies import HeldCopies
from streaming.broker.queues.queue_expiry import QueueExpiry
from streaming.broker.queues.ready_order import Order
from streaming.broker.state.schema import Delivery, Held, LevelRecord, QueueRecord
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings

REFUSED: Final = 0
ACCEPTED: Final = 1
REJECTED_TO_DLX: Final = 2
"""Results of `arrive`: refused and lost, accepted, or refused and dead-lettered (R-LEN-9)."""

NO_PLANS: Final[dict[str, dict[Envelope, Any]]] = {
    reason: {} for reason in ("rejected", "expired", "maxlen", "delivery_limit")
}
"""The cached plans of a queue without any, by reason of death; it stays empty."""


Deaths = deque[tuple["Queue | None", Copy, str, int]]


class DeathOutbox:
    """The deaths of a shard whose dead letters are not delivered yet.

    Attributes:
        deaths: queue (None if the plan is made), copy, reason, and the index of the death in
            `Events.death_outcomes`.
        quorum_deaths: those in quorum queues; they follow when `deaths` is empty (R-QUEUE-5).
        held: queue and copy, for at-least-once dead-lettering.
        unserved: queues that paused in this step (`unfinished.py`).
    """

    __slots__ = ("deaths", "held", "quorum_deaths", "unserved")

    def __init__(self) -> None:
        self.deaths: Deaths = deque()
        self.quorum_deaths: Deaths = deque()
        self.held: deque[tuple[Queue, Held]] = deque()
        self.unserved: list[Queue] = []


class Queue(QueueExpiry):
    """The common part of classic and quorum queues.

    Attributes:
        quorum: whether it is a quorum queue.
        ready, ready_bytes: copies that can be handed out, and their bodies' bytes.
        unacked, unacked_bytes: copies handed out and not settled.
        unacked_on: the same by channel number.
        held: copies kept by at-least-once dead-lettering (R-ALO-2).
        deaths: the part of the outbox that its deaths go to.
        death_plans: cached plans by reason and envelope (`dead_letters/planning.py`).
        holds_deaths: whether it dead-letters at least once.
        blocked: whether a quorum queue has blocked publishers (R-LEN-18).
        above_soft_limit: whether it was above the soft limit when it was last `settled`; kept up
            to date while it is `blocked`.
        owner: the channel that declared it, if it is exclusive.
        line: its consumers.
        consumer_timeout_ms: how long a delivery may be unsettled; NEVER for ever.
        paused: whether handing out ready copies continues later.
    """

    __slots__ = (
        "above_soft_limit",
        "blocked",
        "channels",
        "clock",
        "consumer_timeout_ms",
        "context",
        "death_plans",
        "deaths",
        "declaration",
        "events",
        "held",
        "holds_deaths",
        "line",
        "max_bytes",
        "max_length",
        "name",
        "next_position",
        "number",
        "order",
        "outbox",
        "owner",
        "paused",
        "quorum",
        "ready",
        "ready_bytes",
        "settings",
        "unacked",
        "unacked_bytes",
        "unacked_on",
    )

    order: Order

    def __init__(
        self,
        context: ShardContext,
        channels: ChannelRegistry,
        outbox: DeathOutbox,
        number: int,
        declaration: Declaration,
        record: QueueRecord,
    ) -> None:
        self.quorum = declaration.queue_type == "quorum"
        self.line = ConsumerLine(declaration, record)
        self.held = HeldCopies(context, number, declaration.name, record)
        self._take_part(context, channels, outbox)
        self.number = number
        self.name = declaration.name
        self.declaration = declaration
        self.next_position = record.next_position
        self.ready = record.ready
        self.ready_bytes = record.ready_bytes
        self.unacked = record.unacked
        self.unacked_bytes = record.unacked_bytes
        self.unacked_on = dict(record.unacked_on)
        self.death_plans = NO_PLANS
        self.blocked = record.blocked
        self.above_soft_limit = record.above_soft_limit
        self.owner = record.owner
        self.may_expire = record.may_expire
        self.paused = False
        self.used_at_ms = record.used_at_ms
        self.timer_ms = record.timer_ms
        self.expiry_timer_ms = record.expiry_timer_ms
        self.expires_ms = None

    def _take_part(
        self, context: ShardContext, channels: ChannelRegistry, outbox: DeathOutbox
    ) -> None:
        """Take part in a batch."""
        self.context = context
        self.clock = context.clock
        self.events = context.events
        self.channels = channels
        self.line.take_part(context, channels)
        self.held.take_part(context)
        self.outbox = outbox
        self.deaths = outbox.quorum_deaths if self.quorum else outbox.deaths

    def apply_settings(self, settings: QueueSettings) -> None:
        """Set the settings in force, without acting on them (see `settings_changed`)."""
        self.settings = settings
        self.ttl_ms = settings.message_ttl_ms
        self.max_length = NEVER if settings.max_length is None else settings.max_length
        self.max_bytes = NEVER if settings.max_length_bytes is None else settings.max_length_bytes
        self.expires_ms = settings.expires_ms
        self.holds_deaths = settings.at_least_once
        self.consumer_timeout_ms = max(1, timeout_ms(self.context.config, settings))

    # -- what the two types do differently

    @abstractmethod
    def arrive(
        self,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        base_ms: int,
        failures: int = 0,
    ) -> int:
        """Add a message, published or dead-lettered.

        Args:
            parent_copy_id: the copy whose death made it, or NO_COPY.
            base_ms: when its time to live begins, epoch milliseconds.
            failures: of the copy whose death made it (R-DLV-7).

        Returns:
            ACCEPTED, REFUSED or REJECTED_TO_DLX.
        """

    @abstractmethod
    def put_back(
        self, copies: Iterable[Copy], *, explicitly: bool, cause: str | None = None
    ) -> None:
        """Requeue copies that had been handed out, in delivery order.

        Args:
            explicitly: by a settlement or recover, not by the loss of a channel (R-SET-7).
            cause: what the settlement says is wrong with them.
        """

    @abstractmethod
    def settings_changed(self) -> None:
        """Act on settings newly in force (R-POL-8)."""

    @abstractmethod
    def would_refuse(self, size: int, publisher: Publisher | None = None) -> bool:
        """Whether a message of that size would be refused now.

        Args:
            publisher: who publishes it; else a new one.
        """

    def may_ever_hold(self, size: int) -> bool:  # noqa: ARG002 - by default any size fits
        """Whether a message of that size would be accepted at least by an empty queue."""
        return True

    @abstractmethod
    def new_order(self, levels: list[LevelRecord]) -> Order:
        """The order of this type of queue, with these ready copies."""

    def before_get(self) -> None:
        """Prepare a get from the head; a classic queue does nothing (R-TTL-11)."""

    # -- arriving and leaving

    def new_copy(
        self, message: Message, envelope: Envelope, parent_copy_id: int, base_ms: int
    ) -> Copy:
        """Create a copy and record that it was enqueued; the caller puts it in its place."""
        deadline_ms = self.deadline(envelope, base_ms)
        events = self.events
        kinds = events.kinds
        position = self.next_position
        self.next_position = position + 1
        copy_id = events.first_seq + len(kinds)
        copy = Copy(copy_id, message, envelope, position, deadline_ms, parent_copy_id)
        kinds.append(ENQUEUED)
        events.queues.append(self.name)
        events.copies.append(copy)
        events.numbers.append(position)
        return copy

    def take(self) -> Copy:
        """Remove the head; the caller records what becomes of it, then calls `after_take`."""
        copy = self.order.pop()
        self.ready -= 1
        self.ready_bytes -= copy.message.size
        return copy

    def die(self, copy: Copy, reason: str, cause: str | None = None) -> None:
        """Let a copy die that was just removed from its place.

        Args:
            cause: why, in the words of the consumer that gave it up (`causes`).
        """
        if cause is not None:
            copy = self.context.causes.give(copy, cause)
        if self.holds_deaths:
            self.held.add(copy)
            self.outbox.held.append((self, Held(copy, reason, self.clock.second, cause=cause)))
            return
        events = self.events  # `Events.add_death`, for the death of nearly every message
        kinds = events.kinds
        if cause is not None:
            events.details[len(kinds)] = {"cause": cause}
        rows = events.death_rows
        self.deaths.append((self, copy, reason, len(rows)))
        rows.append(len(kinds))
        kinds.append(DIED)
        events.queues.append(self.name)
        events.copies.append(copy)
        events.numbers.append(0)
        events.death_outcomes.append(PENDING)

    def pause(self) -> None:
        """Go on in another step (`unfinished.py`)."""
        self.paused = True
        self.outbox.unserved.append(self)

    def empty(self) -> tuple[list[Copy], list[LevelRecord]]:
        """Remove all ready copies; limits and timers do not act.

        Returns:
            The copies; or, if there are very many, the levels that hold them, to be continued
            later. New pages get numbers above those of the pages in these levels.
        """
        copies: list[Copy] = []
        detached: list[LevelRecord] = []
        if self.ready > step_size.MAX_AT_ONCE:
            detached = self.order.save()
            self.order = self.new_order([level.emptied() for level in detached])
        else:
            copies.extend(self.order.take_all())
        self.ready = self.ready_bytes = 0
        return copies, detached

    def find_ready(self, copy_ids: set[int]) -> dict[int, Copy]:
        """The ready copies with these ids that have not expired; they stay in the queue."""
        now_ms = self.clock.now_ms
        found: dict[int, Copy] = {}
        if not self.ready:
            return found
        for copy in self.order.matching(lambda copy: copy.copy_id in copy_ids):
            if copy.deadline_ms > now_ms:
                found[copy.copy_id] = copy
            if len(found) == len(copy_ids):
                break
        return found

    def take_out(self, copies: dict[int, Copy]) -> None:
        """Remove ready copies, wherever they are; the caller records what becomes of them."""
        left = self.order.remove(lambda copy: copy.copy_id in copies, len(copies))
        assert not left, f"{left} copies of queue {self.name} are not where they were"
        self.ready -= len(copies)
        self.ready_bytes -= sum(copy.message.size for copy in copies.values())

    def place(self, copy: Copy) -> tuple[int, int]:
        """The sort key of the copies in the queue, ready or not (R-QPID-10)."""
        return (0, copy.position)

    def add_requeued(self, copy: Copy, cause: str | None) -> None:
        """Count a copy as ready again and record it."""
        self.ready += 1
        self.ready_bytes += copy.message.size
        detail = None if cause is None else {"cause": cause}
        self.events.add(Kind.REQUEUED, self.name, copy, copy.position, detail)

    # -- consumers

    def can_deliver(self) -> bool:
        """Whether a copy that arrives now would be handed out at once."""
        return not self.ready and self.line.has_room()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a cancelled consumer; without consumers the queue's expiry runs again."""
        self.line.remove(consumer)
        if not self.line.consumers:
            self.touch()

    def go_on(self) -> None:
        """Continue what was paused: expiry first, so that no expired copy is handed out."""
        self.paused = False
        if self.may_expire:
            self.on_timer()
        self.serve()

    def serve(self) -> None:
        """Hand out ready copies while consumers wait; very many continue later."""
        waiting = self.line.waiting
        if self.paused or not waiting:
            return
        left = step_size.MAX_AT_ONCE
        while self.ready:
            if not left:
                self.pause()
                return
            left -= 1
            if not waiting:
                return
            consumer = self.channels.consumer(waiting[0])
            if consumer.deliveries.unacked >= consumer.prefetch_window:
                receiver = self.line.next()
                if receiver is None:
                    return
                consumer = receiver
            self.hand_over(self.take(), consumer)
            if self.may_expire and self.ready:
                self.sweep()
                if self.ready and self.is_expiring():
                    return

    def hand_over(self, copy: Copy, consumer: Consumer) -> None:
        """Give a copy to the first consumer in line."""
        self.deliver(copy, consumer, consumer.label, consumer.next_number, consumer.auto_ack)
        line = self.line
        if self.quorum and not consumer.has_room:
            line.waiting.popleft()
            consumer.leave_line()
        elif line.ranked:
            line.waiting.popleft()
            line.join(consumer)
        else:
            line.waiting.rotate(-1)

    def deliver(
        self,
        copy: Copy,
        consumer: Consumer,
        label: str,
        label_number: int,
        auto_ack: bool,  # noqa: FBT001 - by position: this is called for nearly every message
    ) -> None:
        """Hand out a copy: event, outbound record, and an unacked delivery unless auto-acked."""
        context = self.context
        channel = consumer.channel
        actor = channel.actor
        events = self.events
        kinds = events.kinds
        row = len(kinds)
        if context.actor is not actor:
            events.receivers[row] = actor
        requeue_count = copy.requeue_count
        kinds.append(CONSUMED if auto_ack else DELIVERED)
        events.queues.append(self.name)
        events.copies.append(copy)
        events.numbers.append(requeue_count)
        number = consumer.next_number
        consumer.next_number = number + 1
        tag = channel.next_tag
        channel.next_tag = tag + 1
        consumer_id = ""
        if not auto_ack:
            consumer_id = consumer.id
            now_ms = self.clock.now_ms
            consumer.deliveries.add(Delivery(tag, number, self.number, now_ms, copy))
            tags = channel.tags
            if tags is not None:
                tags[tag] = consumer.number << TAG_BITS | number
            self.unacked += 1
            self.unacked_bytes += copy.message.size
            channel_number = channel.number
            self.unacked_on[channel_number] = self.unacked_on.get(channel_number, 0) + 1
            due_ms = now_ms + self.consumer_timeout_ms
            if due_ms < channel.timeout_timer_ms:
                channel.timeout_timer_ms = due_ms
                self.clock.arm(due_ms, TimerKind.CONSUMER_TIMEOUT, channel_number)
        context.outbound.append(
            DeliveryOut(
                row,
                actor,
                label,
                label_number,
                consumer_id,
                number,
                self.name,
                copy,
                requeue_count,
                copy.failures,
                self.quorum,
                consumer.number,
                tag,
            )
        )

    def get(
        self,
        count: int,
        consumer: Consumer,
        label: str,
        auto_ack: bool,  # noqa: FBT001 - as in `deliver`
        deliver_deaths: Callable[[], None],
    ) -> int:
        """Hand out the head, up to `count` times; return how often (R-QUEUE-6).

        Args:
            deliver_deaths: delivers the dead letters that one get caused, before the next one.
        """
        deaths, held = self.deaths, self.outbox.held
        for done in range(count):
            if self.may_expire:
                self.before_get()
            if not self.ready or self.is_expiring():
                return done
            self.deliver(self.take(), consumer, label, done, auto_ack)
            if self.may_expire:
                self.after_take()
            if deaths or held:
                deliver_deaths()
        return count

    def get_message(
        self,
        message_id: tuple[int, int, int],
        consumer: Consumer,
        label: str,
        label_number: int,
        *,
        auto_ack: bool,
    ) -> bool:
        """Hand out the first ready copy of one message to a get; False if there is none.

        Reads the pages before it: a million copies take about a second. Expired copies stay.
        """
        if self.may_expire:
            self.before_get()
        now_ms = self.clock.now_ms
        topic_number, partition, offset = message_id

        def wanted(copy: Copy) -> bool:
            message = copy.message
            return (
                message.offset == offset
                and message.partition == partition
                and message.topic_number == topic_number
                and copy.deadline_ms > now_ms
            )

        copy = self.order.extract(wanted)
        if copy is None:
            return False
        self.ready -= 1
        self.ready_bytes -= copy.message.size
        self.deliver(copy, consumer, label, label_number, auto_ack)
        if self.may_expire:
            self.after_take()
        return True

    def consumer_count(self) -> int:
        """How many consumers a client is told that it has."""
        return len(self.line.consumers)

    # -- settling

    def ack(self, channel_number: int, copy: Copy) -> None:
        """Let an unacked copy go."""
        self.reclaim(channel_number, copy)
        self.events.add(Kind.ACKED, self.name, copy)

    def ack_all(self, channel_number: int, copies: list[Copy]) -> None:
        """Let unacked copies of one channel go."""
        self.unacked -= len(copies)
        self.unacked_bytes -= sum([copy.message.size for copy in copies])
        left = self.unacked_on[channel_number] - len(copies)
        if left:
            self.unacked_on[channel_number] = left
        else:
            del self.unacked_on[channel_number]
        self.events.add_all(Kind.ACKED, self.name, copies)

    def reclaim(self, channel_number: int, copy: Copy) -> None:
        """Count a copy as unacked no more."""
        self.unacked -= 1
        self.unacked_bytes -= copy.message.size
        left = self.unacked_on[channel_number] - 1
        if left:
            self.unacked_on[channel_number] = left
        else:
            del self.unacked_on[channel_number]

    # -- at rest

    def next_timer_ms(self) -> int:
        """The earliest of its timers."""
        return min(self.timer_ms, self.expiry_timer_ms, self.held.retry_timer_ms)

    def save(self) -> QueueRecord:
        """Write pages and return the record. Do not use the queue afterwards."""
        return QueueRecord(  # by position, which takes half as long
            self.next_position,
            self.ready,
            self.ready_bytes,
            self.unacked,
            self.unacked_bytes,
            self.timer_ms,
            self.used_at_ms,
            self.expiry_timer_ms,
            self.held.retry_timer_ms,
            self.order.save(),
            consumers=self.line.consumers,
            waiting=list(self.line.waiting),
            unacked_on=list(self.unacked_on.items()),
            held=self.held.count,
            held_bytes=self.held.bytes,
            held_fifo=self.held.save(),
            blocked=self.blocked,
            owner=self.owner,
            may_expire=self.may_expire and bool(self.ready or self.unacked),
            above_soft_limit=self.above_soft_limit,
            active=self.line.active,
            ranked=self.line.ranked,
        )
