r"""One queue: what it holds, what is in force for it, what arriving and returning do.

       arrive --> ready ---take---> unacked --settled--> gone (acked, or dead: rejected)
                  ^  |  \\              |
                  |  |   +--> dead: expired (at the head only), maxlen
                  |  |                 |
                  +--+---- put back <--+--> dead: delivery_limit (quorum)

Rule 1: only methods here and in `classic.py` and `quorum.py` move copies along the arrows.
Rule 2: every arrow appends one event; a death appends its event through `dead_lettering`.
Rule 3: limits and expiry look at ready copies only (R-QUEUE-1, R-LEN-3, R-TTL-5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappush
from typing import TYPE_CHECKING, ClassVar, Final

from streaming.broker.events import ENQUEUED
from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.queues.order import Order
from streaming.broker.queues.queue_use import QueueUse
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.schema import FifoRecord, Held, QueueRecord
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.broker.dead_letters.dead_lettering import DeathPlan
    from streaming.broker.shard import Shard
    from topology.declarations import Queue as Declaration
    from topology.policies import QueueSettings

REFUSED: Final = 0
ACCEPTED: Final = 1
TURNED_AWAY: Final = 2
"""What `arrive` says: refused and lost, accepted, or refused and dead-lettered (R-LEN-9)."""


_make_copy: Final = Copy
"""As a constant of this module: compiled code need not look it up by name for each message."""


class Queue(QueueUse, ABC):
    """The common part of classic and quorum queues.

    Attributes:
        quorum: whether it is a quorum queue.
        ready, ready_bytes: copies that can be handed out, and their bodies' bytes.
        unacked, unacked_bytes: copies handed out and not settled.
        held, held_bytes: copies kept by at-least-once dead-lettering (R-ALO-2).
        mortal: whether some copy in it may expire; always true of quorum queues.
        holds_deaths: whether it dead-letters at least once.
        timer_ms: when the next sweep for expired copies is due; NEVER for none.
    """

    __slots__ = (
        "blocked",
        "declaration",
        "events",
        "held",
        "held_bytes",
        "held_fifo",
        "holds_deaths",
        "max_bytes",
        "max_length",
        "mortal",
        "name",
        "next_position",
        "order",
        "owner",
        "plan_epoch",
        "plans",
        "quorum",
        "ready",
        "ready_bytes",
        "retry_timer_ms",
        "settings",
        "timer_ms",
        "ttl_ms",
        "unacked",
        "unacked_bytes",
        "unacked_on",
    )

    sweep_timer: ClassVar[TimerKind] = TimerKind.SWEEP_CLASSIC
    order: Order

    def __init__(
        self, shard: Shard, number: int, declaration: Declaration, record: QueueRecord
    ) -> None:
        super().__init__(shard, number, record)
        self.events = shard.events
        self.quorum = declaration.queue_type == "quorum"
        self.name = declaration.name
        self.declaration = declaration
        self.next_position = record.next_position
        self.ready = record.ready
        self.ready_bytes = record.ready_bytes
        self.unacked = record.unacked
        self.unacked_bytes = record.unacked_bytes
        self.timer_ms = record.timer_ms
        self.retry_timer_ms = record.retry_timer_ms
        self.unacked_on = dict(record.unacked_on)
        self.held = record.held
        self.held_bytes = record.held_bytes
        self.held_fifo: Fifo[Held] | FifoRecord | None = record.held_fifo
        self.blocked = record.blocked
        self.owner = record.owner
        self.mortal = record.mortal
        self.plan_epoch = -1
        self.plans: dict[str, dict[Envelope, DeathPlan]] = {}

    def apply_settings(self, settings: QueueSettings) -> None:
        """Put settings in force, without acting on them (see `settings_changed`)."""
        self.settings = settings
        self.ttl_ms = settings.message_ttl_ms
        self.max_length = NEVER if settings.max_length is None else settings.max_length
        self.max_bytes = NEVER if settings.max_length_bytes is None else settings.max_length_bytes
        self.expires_ms = settings.expires_ms
        self.holds_deaths = settings.at_least_once

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
        """Take in a message, published or dead-lettered.

        Args:
            parent_copy_id: the copy whose death made it, or NO_make_copy.
            base_ms: when its time to live begins to count, epoch milliseconds.
            failures: of the copy whose death made it (R-DLV-7).

        Returns:
            ACCEPTED, REFUSED or TURNED_AWAY.
        """

    @abstractmethod
    def put_back(self, copies: Iterable[Copy], *, explicitly: bool) -> None:
        """Return copies that had been handed out, in delivery order.

        Args:
            explicitly: by a settlement or recover, not by the loss of a channel (R-SET-7).
        """

    @abstractmethod
    def settings_changed(self) -> None:
        """Act on settings newly in force (R-POL-8)."""

    @abstractmethod
    def would_refuse(self, size: int) -> bool:
        """Whether a message of that size would be refused now."""

    def before_get(self) -> None:
        """What comes before a get looks at the head; a classic queue does nothing (R-TTL-11)."""

    def settled(self) -> None:
        """Called when copies were settled or taken; a quorum queue may accept publishes again."""

    # -- common

    def new_copy(
        self, message: Message, envelope: Envelope, parent_copy_id: int, base_ms: int
    ) -> Copy:
        """Give birth to a copy and say so; it is in no place yet."""
        ttl_ms = self.ttl_ms
        envelope_ttl_ms = envelope.ttl_ms
        if envelope_ttl_ms is not None and (ttl_ms is None or envelope_ttl_ms < ttl_ms):
            ttl_ms = envelope_ttl_ms
        deadline_ms = NEVER
        if ttl_ms is not None:
            deadline_ms = base_ms + ttl_ms if ttl_ms else self.shard.now_ms
            self.mortal = True
        events = self.events
        kinds = events.kinds
        position = self.next_position
        self.next_position = position + 1
        copy_id = events.first_seq + len(kinds)
        copy = _make_copy(copy_id, message, envelope, position, deadline_ms, parent_copy_id)
        kinds.append(ENQUEUED)
        events.queues.append(self.name)
        events.copies.append(copy)
        events.numbers.append(position)
        return copy

    def unborn_copy(self, message: Message, envelope: Envelope, parent_copy_id: int) -> Copy:
        """A copy for the event that comes next; it never is in the queue."""
        events = self.shard.events
        return Copy(len(events) + events.first_seq, message, envelope, -1, NEVER, parent_copy_id)

    def take(self) -> Copy:
        """Take the head; the caller says what becomes of it, then calls `after_take`."""
        copy = self.order.pop()
        self.ready -= 1
        self.ready_bytes -= copy.message.size
        return copy

    def after_take(self) -> None:
        """What follows when a head was handed out: the next may be past its deadline (R-TTL-3)."""
        if self.ready:
            self.sweep()

    def sweep(self) -> None:
        """Let the head die while it is past its deadline; arm the timer for the next (R-TTL-3)."""
        shard = self.shard
        now_ms = shard.now_ms
        order = self.order
        while self.ready:
            head = order.head()
            deadline_ms = head.deadline_ms
            if deadline_ms > now_ms:
                if deadline_ms < self.timer_ms:
                    self.timer_ms = deadline_ms
                    heappush(shard.timers, (deadline_ms, self.sweep_timer, self.number))
                return
            self.take()
            shard.dead_lettering.die(self, head, "expired")

    def on_timer(self) -> None:
        """The sweep that was due."""
        self.timer_ms = NEVER
        self.sweep()
        self.settled()

    def take_everything(self) -> list[Copy]:
        """Empty the ready part; limits and timers do not act."""
        copies = list(self.order.take_all())
        self.ready = self.ready_bytes = 0
        return copies

    def place(self, copy: Copy) -> tuple[int, int]:
        """What orders the copies of the queue, ready or not (R-QPID-10)."""
        return (0, copy.position)

    # -- unacked copies, by the channel that has them

    def reclaim(self, channel: int, copy: Copy) -> None:
        """Count a copy as unacked no more."""
        self.unacked -= 1
        self.unacked_bytes -= copy.message.size
        left = self.unacked_on[channel] - 1
        if left:
            self.unacked_on[channel] = left
        else:
            del self.unacked_on[channel]

    # -- rest

    def resident_messages(self) -> int:
        """Copies that are in it in any way."""
        return self.ready + self.unacked + self.held

    def resident_bytes(self) -> int:
        """The bytes of their bodies."""
        return self.ready_bytes + self.unacked_bytes + self.held_bytes

    def next_timer_ms(self) -> int:
        """The earliest of its timers."""
        return min(self.timer_ms, self.expiry_timer_ms, self.retry_timer_ms)

    def record(self) -> QueueRecord:
        """Write pages and give the rest; the queue is not used after this."""
        held = self.held_fifo.save() if isinstance(self.held_fifo, Fifo) else self.held_fifo
        return QueueRecord(
            self.next_position,
            self.ready,
            self.ready_bytes,
            self.unacked,
            self.unacked_bytes,
            self.timer_ms,
            self.used_at_ms,
            self.expiry_timer_ms,
            self.retry_timer_ms,
            self.order.save(),
            self.consumers,
            list(self.waiting),
            list(self.unacked_on.items()),
            self.held,
            self.held_bytes,
            held,
            self.blocked,
            0,
            0,
            self.had_consumer,
            self.owner,
            self.mortal and bool(self.ready or self.unacked),
        )
