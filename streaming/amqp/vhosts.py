"""A vhost that clients have open: one shard of the broker core, and who hears what it says.

    channel --publish, command--> Shard --outbound--> the channel that each record is for
                                    |
                                 events --> stored messages, watchers

The shard stays open as long as the vhost does. What it says is handed out by `flush`, after the
bytes of one client were read: so a burst of publishes costs one round of deliveries and confirms.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

import msgspec

from streaming.amqp.entries import Ask, Entry, Publish, Settle, Then
from streaming.amqp.properties import read_properties
from streaming.amqp.publications import Publications
from streaming.amqp.stored import Stored, StoredMessages
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Events, Kind
from streaming.broker.message import CONFIRM, NEVER, Publication, Routed
from streaming.broker.outbound import AnswerOut, ConfirmOut, DeliveryOut, Outbound, ReturnOut
from streaming.broker.sequence.log_fold import LogFold
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from topology.refusals import Refusal

MAX_MESSAGE_SIZE: Final = 16 * 1024 * 1024
"""The largest body that is accepted, in bytes: RabbitMQ 4.0's default."""

_ACKED: Final = int(Kind.ACKED)
_VOID: Final = int(Kind.VOID)


class Listener(Protocol):
    """A channel of a client, as the vhost tells it what the broker says."""

    def delivered(self, out: DeliveryOut, stored: Stored) -> None:
        """Take a delivery, and its message."""

    def confirmed(self, out: ConfirmOut) -> None:
        """Take a confirm."""

    def hear(self, out: Outbound, stored: Stored | None) -> None:
        """Take any other record; `stored` is the message of a return."""


class AnswerListener:
    """Hears the answers to the commands of someone who gets nothing else."""

    def __init__(self, answered: Callable[[AnswerOut], None]) -> None:
        self._answered = answered

    def delivered(self, _out: DeliveryOut, _stored: Stored) -> None:
        """See `Listener`."""

    def confirmed(self, _out: ConfirmOut) -> None:
        """See `Listener`."""

    def hear(self, out: Outbound, _stored: Stored | None) -> None:
        """See `Listener`."""
        if isinstance(out, AnswerOut):
            self._answered(out)


TimedOut = Callable[[int], None]
"""Told that the broker closed a channel: a delivery was not settled for so many milliseconds."""

Watcher = Callable[[Events], None]
"""Reads the events of the shard since the last call; they are not kept afterwards."""


class Traffic(msgspec.Struct, gc=False):
    """How often a channel did what, by RabbitMQ's names."""

    publish: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    drop_unroutable: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    redeliver: int = 0
    ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0


class OpenVhost:
    """One vhost in memory.

    Args:
        config: its clock is `event`: only records and `advance` move it.
        now_ms: the clock of the server, epoch milliseconds.
        stored: by default a new one.
        shard: by default a new one in memory, whose clock is that of the server.

    Attributes:
        stored: the messages in its queues.
        watchers: are shown all events.
        applied: the ticket of the newest entry that was applied.
        asking: whose command is being carried out and answered; None for nobody's.
        published, confirmed: how many publishes were taken, and of them with a confirm.
        got, gets: how many gets there were, by kind, and by kind and queue that is there.
        published_to: how many publishes were taken, by exchange that is there.
        traffic: what open channels did.
        uncommitted_bytes: what publishes in open transactions and unfinished bodies take, about.
        polled_bytes: of frames that asked empty queues, and of their answers.
        max_body_bytes, max_property_bytes: what a message may have.
        max_routed_bytes: what the names of the queues of a publish in a transaction may have.
        default_queue_type: of queues that its clients declare without a type.
    """

    applied = 0
    default_queue_type = "classic"
    max_body_bytes = MAX_MESSAGE_SIZE
    max_property_bytes = MAX_MESSAGE_SIZE  # in memory, a frame is the limit
    max_routed_bytes = MAX_MESSAGE_SIZE  # in memory, whatever there are

    def __init__(
        self,
        config: ShardConfig,
        now_ms: Callable[[], int],
        *,
        stored: StoredMessages | None = None,
        shard: Shard | None = None,
    ) -> None:
        self.name = config.vhost
        self.config = config
        self.stored = StoredMessages() if stored is None else stored
        self.shard = shard or Shard(config, MemoryStore(), published=self.stored.published)
        self.watchers: list[Watcher] = []
        self._now_ms = now_ms
        self._connections: set[str] = set()
        self._listeners: dict[str, Listener] = {}
        self._timed_out: dict[str, TimedOut] = {}
        self.publications = Publications()
        self._published: list[int] = []
        self.published = self.confirmed = 0
        self.uncommitted_bytes = 0
        self.polled_bytes = 0
        self.got: Counter[str] = Counter()
        self.gets: Counter[tuple[str, str]] = Counter()
        self.published_to: Counter[str] = Counter()
        self.traffic: dict[str, Traffic] = {}
        self._is_telling = False
        self._offset = 0
        self._fold: Shard | LogFold = self.shard
        self.asking: Actor | None = None
        if shard is None:
            self.shard.advance(now_ms())

    # -- connections and channels

    def enter(self, connection_name: str) -> str:
        """Let a connection in; return its name, with a number if another one still has it.

        A client may come back from the same port before all that it did is told: nobody else must
        hear that. `depart` frees the name.
        """
        name, number = connection_name, 1
        while name in self._connections:
            number += 1
            name = f"{connection_name} #{number}"
        self._connections.add(name)
        return name

    def depart(self, connection_name: str) -> None:
        """Free the name of a connection that has ended once all before is told."""
        self.submit(Then(lambda: self._connections.discard(connection_name)))

    def listen(
        self, channel_name: str, listener: Listener, timed_out: TimedOut | None = None
    ) -> None:
        """Tell a channel what is for it."""
        self._listeners[channel_name] = listener
        self.traffic.setdefault(channel_name, Traffic())
        if timed_out is not None:
            self._timed_out[channel_name] = timed_out

    def listener(self, channel_name: str) -> Listener | None:
        """What is told what is for a channel."""
        return self._listeners.get(channel_name)

    def forget(self, channel_name: str) -> None:
        """Tell a channel nothing any more."""
        self._listeners.pop(channel_name, None)
        self._timed_out.pop(channel_name, None)
        self.traffic.pop(channel_name, None)

    def fall_silent(self) -> None:
        """Tell nobody anything any more: the vhost is being deleted."""
        self._listeners.clear()
        self.watchers.clear()

    # -- what clients do

    def submit(self, entry: Entry) -> int:
        """Take what a client does; return its ticket: `applied` reaches it when it is applied."""
        self._offset += 1
        self.apply(entry, self._now_ms(), self._offset)
        return 0

    def apply(self, entry: Entry, at_ms: int, offset: int) -> None:
        """Carry out an entry; `flush` tells the rest of what came of it.

        What is refused is told at once, because its channel takes nothing more, and so is what a
        command answers.

        Args:
            at_ms: the instant of the entry; never before that of the one before.
            offset: its place in the log. A message has it, and so its confirm and its return.
        """
        if isinstance(entry, Publish):
            message = self.stored.add(entry.stored, offset)
            self._published.append(offset)
            if entry.number:
                entry.confirms.expect(offset, entry.number)
            refusal = self._fold.publish(
                at_ms, message, entry.publication, entry.flags, entry.actor
            )
            kinds = self.shard.events.kinds
            if refusal is not None:
                self.flush()
            elif not kinds or kinds[-1] != _VOID:  # else its channel was closed before
                self._count_publish(entry)
        elif isinstance(entry, Settle):
            before = len(self.shard.events)
            refusal = self._fold.settle(
                at_ms,
                entry.actor,
                entry.tag,
                entry.last,
                multiple=entry.multiple,
                outcome=entry.outcome,
            )
            if entry.outcome == "ack":
                traffic = self.traffic.get(entry.actor.channel)
                if traffic is not None:
                    traffic.ack += self._acked(entry, before)
            if refusal is not None:
                self.flush()
                entry.refused(refusal, entry.method)
        elif isinstance(entry, Ask):
            self.asking = entry.actor
            self._fold.command(at_ms, entry.command, entry.actor)
            self.flush()
            self.asking = None
        else:
            self.flush()
            entry.done()

    def _count_publish(self, entry: Publish) -> None:
        """Count a publish that was taken: its exchange is there."""
        self.published += 1
        self.published_to[entry.publication.exchange] += 1
        traffic = self.traffic.get(entry.actor.channel)
        if traffic is not None:
            traffic.publish += 1
        if entry.flags & CONFIRM and entry.publication.routed is None:
            self.confirmed += 1
            if traffic is not None:
                traffic.confirm += 1

    def _acked(self, entry: Settle, before: int) -> int:
        """How many deliveries a settlement acknowledged; `before`: how many events there were."""
        if entry.multiple or entry.last:
            return self.shard.events.kinds[before:].count(_ACKED)
        return 1

    def route(
        self, actor: Actor, publication: Publication, headers: dict[str, Any] | None
    ) -> Routed | Refusal | None:
        """Where a publish in a transaction goes: see `Publishing.route`."""
        return self.shard.state.publishing.route(publication, actor.user, headers)

    def unacked_tags(self, actor: Actor) -> AbstractSet[int]:
        """The tags of a channel's deliveries that are not settled."""
        channel = self.shard.state.channels.get(actor.user, actor.channel)
        return frozenset() if channel is None else channel.by_tag().keys()

    def advance(self) -> None:
        """Let the time of the server pass, and tell what that caused."""
        self.shard.advance(self._now_ms())
        self.flush()

    def next_deadline_ms(self) -> int | None:
        """When time causes something next, epoch milliseconds; None if it never does."""
        due_ms = self.shard.state.context.clock.next_deadline_ms()
        return None if due_ms == NEVER else due_ms

    def count_get(self, what: str, queue: str, channel: str) -> None:
        """Count a get: `get`, `get_no_ack` or `get_empty`."""
        self.got[what] += 1
        self.gets[what, queue] += 1
        traffic = self.traffic.get(channel)
        if traffic is not None:
            setattr(traffic, what, getattr(traffic, what) + 1)

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be applied that nobody's frames may be taken."""
        return False

    @property
    def is_told(self) -> bool:
        """Whether channels were told all that came of what was applied, once `flush` returns."""
        return True

    @property
    def resident_bytes(self) -> int:
        """What the messages in the queues take."""
        return self.stored.resident_bytes

    @property
    def held_bytes(self) -> int:
        """What messages take of the memory of this process."""
        return self.stored.resident_bytes

    def ready_in(self, queue_name: str) -> int:
        """How many messages of a queue are ready; 0 if there is no such queue any more."""
        if queue_name not in self.shard.vhost.queues:
            return 0
        return self.shard.state.queues.named(queue_name).ready

    def head_timestamp_s(self, queue_name: str) -> int | None:
        """The property `timestamp` of a queue's first ready message, in seconds since 1970.

        Returns:
            None if there is none, or the message is not in memory.
        """
        order = self.shard.state.queues.named(queue_name).order
        head = next(order.matching(lambda _copy: True), None)
        stored = None if head is None else self.stored.in_memory(head.message)
        if stored is None:
            return None
        found: int | None = read_properties(stored.properties).get("timestamp")
        return found

    # -- what the broker says

    def flush(self) -> None:
        """Tell channels and watchers what has happened since the last call.

        A channel may do something when it hears of a refusal. What follows from that is told behind
        what it is told now, so each channel hears everything in order.
        """
        if self._is_telling:
            return
        self._is_telling = True
        listeners = self._listeners
        message_of = self.stored.of
        try:
            while self.shard.outbound:
                for out in self._fold.take_outbound():
                    listener = listeners.get(out.actor.channel)
                    if listener is None:
                        continue
                    if isinstance(out, DeliveryOut):
                        listener.delivered(out, message_of(out.copy.message))
                    elif isinstance(out, ConfirmOut):
                        listener.confirmed(out)
                    elif isinstance(out, ReturnOut):
                        listener.hear(out, message_of(out.message))
                    else:
                        listener.hear(out, None)
            self._pass_events_on()
        finally:
            self._is_telling = False
        for name, timeout_ms in self.shard.take_timed_out():
            if (told := self._timed_out.get(name)) is not None:
                told(timeout_ms)

    def _pass_events_on(self) -> None:
        events = self._fold.take_events()
        if len(events) or self._published:
            for watch in self.watchers:
                watch(events)  # while the messages that these events end are still there
            for detail in events.details.values():
                self._forget_counts(detail.get("what"), detail.get("name"))
            self.stored.count(events, self._published)
            self._published = []

    def _forget_counts(self, what: object, name: object) -> None:
        """Count from zero what is declared again."""
        if what == "queue_deleted":
            for kind in ("get", "get_no_ack", "get_empty"):
                self.gets.pop((kind, str(name)), None)
        elif what == "exchange_deleted":
            self.published_to.pop(str(name), None)
