"""The broker: one shard of one vhost as a function of its log.

    publish / command, in order  -->  Shard  -->  events (the ledger), outbound (to clients)
                                        |
                                   StateStore (between batches)

A batch is `Shard(config, store)`, any number of `publish` and `command`, then `finish`. Equal
state, records and instants give equal events and equal state, wherever the log is cut into
batches.

Time. The clock never goes back, and only records (and `finish`) move it. A record takes effect at
max(clock, its time); timers due up to that instant fire first, in order of deadline
(`timers.py`). `publish_base_ms` is when a published message's time to live begins: the clock, or
with `clock = wall` the batch's `now`, because until then the message waited in Kafka and not in a
queue.

What one record causes happens at once: the record itself, then the dead letters it causes, hop by
hop (`dead_lettering.py`), before the next record.

Rule 1: nothing in this package reads a clock, a file, Spark or Kafka, or draws a random number.
Rule 2: iteration order never depends on hashing or on what happens to be in memory.
Rule 3: a copy is born by one event and ends by at most one; its id is the birth's sequence number.
Rule 4: a refused command changes nothing but the channel that RabbitMQ would close.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streaming.broker.administration import Administration
from streaming.broker.at_least_once import AtLeastOnce
from streaming.broker.channel_directory import ChannelDirectory
from streaming.broker.classic import ClassicQueue
from streaming.broker.consumers import Consumers
from streaming.broker.dead_lettering import DeadLettering
from streaming.broker.deaths import matching_headers
from streaming.broker.declared import Declared, TopologyCache, digest_of
from streaming.broker.encoding import pack, unpack
from streaming.broker.events import CLOCK, Actor, Events, Kind
from streaming.broker.lanes import BROADCAST_OPS
from streaming.broker.message import NEVER, NO_COPY, Envelope, Message, Publication
from streaming.broker.outbound import AnswerOut
from streaming.broker.publishing import Publishing
from streaming.broker.queue import REFUSED, Queue
from streaming.broker.quorum import QuorumQueue
from streaming.broker.records import GROUP_BITS, Records
from streaming.broker.rerouting import Rerouting
from streaming.broker.rest import EMPTY, HeaderRecord, QueueRecord
from streaming.broker.sessions import Sessions
from streaming.broker.settlement import Settlements
from streaming.broker.shard_config import ShardConfig
from streaming.broker.timers import Timer, TimerKind
from topology.errors import Refusal

if TYPE_CHECKING:
    from streaming.broker.at_least_once import Descendants
    from streaming.broker.commands import Command
    from streaming.broker.outbound import Outbound
    from streaming.broker.pages import StateStore
    from topology.declarations import Queue as Declaration
    from topology.policies import QueueSettings

_HEADER, _TOPOLOGY = "header", "topology"
_encoder = msgspec.msgpack.Encoder()
_queue_decoder = msgspec.msgpack.Decoder(QueueRecord)


_header_decoder = msgspec.msgpack.Decoder(HeaderRecord)


class Batch(NamedTuple):
    """What a batch did."""

    events: Events
    outbound: list[Outbound]
    first_outbound: int  # number of the first outbound record; they go up by one
    next_deadline_ms: int  # the earliest timer; NEVER for none
    now_ms: int  # the shard's clock
    resident_messages: int  # ready, unacked and held copies
    resident_bytes: int  # their bodies


class Shard:
    """One shard during one batch.

    Args:
        store: where the state rests.
        now_ms: with `clock = wall` the batch's instant; with `event` ignored.
        cache: compiled topologies of this worker.
    """

    def __init__(
        self,
        config: ShardConfig,
        store: StateStore,
        *,
        now_ms: int = 0,
        cache: TopologyCache | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self._cache = cache or TopologyCache()
        data = store.read(_HEADER)
        header = (
            HeaderRecord(0, 1, b"", {}, {}, 1, 0, 0, [])
            if data is None
            else _header_decoder.decode(unpack(data))
        )
        self.now_ms = header.now_ms
        self.second = self.now_ms // 1000
        self.heading_ms = self.now_ms  # where time is moving to
        self.batch_ms = now_ms
        self.publish_base_ms = self.now_ms
        self.actor: Actor = CLOCK
        self.events = Events(header.next_seq)
        self.outbound: list[Outbound] = []
        self._first_outbound = header.next_outbound
        self._resident_messages = header.resident_messages
        self._resident_bytes = header.resident_bytes
        self._digest = header.topology_digest
        self.topology = self._load_topology()
        self._changed_topology = False
        self._warned = {
            (exchange, alternate): version for exchange, alternate, version in header.warned
        }
        self._queue_records = Records(store, "q", header.queue_timers)
        self._queues: dict[int, Queue] = {}
        self._names: dict[str, Queue] = {}
        self.timers: list[Timer] = [
            *(
                (due_ms, TimerKind.WAKE_QUEUES, group)
                for group, due_ms in header.queue_timers.items()
            ),
            *(
                (due_ms, TimerKind.WAKE_CHANNELS, group)
                for group, due_ms in header.channel_timers.items()
            ),
        ]
        heapify(self.timers)
        self.channels = ChannelDirectory(self, header.channel_timers)
        self.dead_lettering = DeadLettering(self)
        self.at_least_once = AtLeastOnce(self)
        self.rerouting = Rerouting(self)
        self.consumers = Consumers(self)
        self.settlements = Settlements(self)
        self.publishing = Publishing(self)
        self.administration = Administration(self)
        self.sessions = Sessions(self)
        self._handlers = {**self.administration.handlers(), **self.sessions.handlers()}
        self.late_ms = self._lateness()
        self._start_time()

    # -- the log

    def publish(
        self,
        at_ms: int,
        message: Message,
        publication: Publication,
        flags: int = 0,
        actor: Actor = CLOCK,
    ) -> None:
        """One published message.

        Args:
            at_ms: the record's timestamp, epoch milliseconds.
            publication: what was asked for; intern equal ones.
            flags: `publishing.MANDATORY | IMMEDIATE | CONFIRM`.
            actor: who published.
        """
        if at_ms > self.now_ms:
            self._advance(at_ms)
        if actor is not self.actor:
            self._act(actor)
        plan = self.publishing.plans.get(publication)
        if plan is None or flags or not plan.plain:
            self.publishing.publish(message, publication, flags)
        else:
            for queue in plan.queues:
                if queue.arrive(message, plan.envelope, NO_COPY, self.publish_base_ms) == REFUSED:
                    self.note_refused(queue, message, plan.envelope)
        if self.dead_lettering.outbox or self.at_least_once.dying:
            self.cascade()

    def command(self, at_ms: int, command: Command, actor: Actor = CLOCK) -> None:
        """One command; its answer goes to `outbound`. See `publish` for the arguments."""
        if at_ms > self.now_ms:
            self._advance(at_ms)
        self._act(actor)
        op = str(command.__struct_config__.tag)
        handler = self._handlers.get(type(command))
        result: dict[str, Any] | Refusal = {}
        row = len(self.events)
        if handler is not None:
            self.sessions.renew_lease(actor)
            result = handler(actor, command)
        if isinstance(result, Refusal):
            detail = {"op": op, "code": result.code, "text": result.text}
            row = self.events.add(Kind.COMMAND_ERROR, detail=detail)
            self.sessions.close_after_error(actor)
        self.cascade()
        if handler is not None and (self.config.lane == 0 or op not in BROADCAST_OPS):
            refusal = result if isinstance(result, Refusal) else None
            self.outbound.append(
                AnswerOut(
                    row,
                    actor,
                    op,
                    command.reply_id,
                    {} if isinstance(result, Refusal) else result,
                    refusal,
                )
            )

    def finish(self) -> Batch:
        """End the batch: with `clock = wall` time moves to its instant; the state is written."""
        if self.config.clock == "wall" and self.batch_ms > self.now_ms:
            self._advance(self.batch_ms)
        next_deadline_ms = self.next_deadline_ms()
        self._save()
        return Batch(
            self.events,
            self.outbound,
            self._first_outbound,
            next_deadline_ms,
            self.now_ms,
            self._resident_messages,
            self._resident_bytes,
        )

    # -- time

    def advance(self, at_ms: int) -> None:
        """Let time pass up to an instant, as a record at that time would."""
        if at_ms > self.now_ms:
            self._advance(at_ms)

    def _start_time(self) -> None:
        wall = self.config.clock == "wall"
        self.publish_base_ms = max(self.batch_ms, self.now_ms) if wall else self.now_ms
        self.events.times.append((0, self.now_ms))

    def _advance(self, at_ms: int) -> None:
        if self.config.clock == "wall" and at_ms > self.batch_ms:
            at_ms = self.batch_ms
        self.heading_ms = at_ms
        timers = self.timers
        while timers and timers[0][0] <= at_ms:
            due_ms, kind, number = heappop(timers)
            self._act(CLOCK)
            if due_ms > self.now_ms:
                self._set_clock(due_ms)
            self._fire(due_ms, kind, number)
            self.cascade()
        if at_ms > self.now_ms:
            self._set_clock(at_ms)

    def _set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        second = now_ms // 1000
        if second != self.second:
            self.second = second
            self.dead_lettering.epoch += 1
        if self.config.clock == "event":
            self.publish_base_ms = now_ms
        self.events.times.append((len(self.events), now_ms))

    def _fire(self, due_ms: int, kind: int, number: int) -> None:
        """Let a timer act, unless it is stale."""
        match kind:
            case TimerKind.EXPIRE_MESSAGES:
                queue = self.queue_by_number(number)
                if queue is not None and queue.timer_ms == due_ms:
                    queue.on_timer()
            case TimerKind.WAKE_QUEUES:
                for member in sorted(self._queue_records.group(number)):
                    self.queue_by_number(member)
            case TimerKind.WAKE_CHANNELS:
                for member in sorted(self.channels.records.group(number)):
                    self.channels.by_number(member)
            case TimerKind.RETRY_HELD:
                queue = self.queue_by_number(number)
                if queue is not None and queue.retry_timer_ms == due_ms:
                    self.at_least_once.retry(queue)
            case TimerKind.EXPIRE_QUEUE:
                self.administration.queues.queue_expiry_due(number, due_ms)
            case _:
                self.sessions.timer_due(kind, number, due_ms)

    def _lateness(self) -> int:
        """How late a shard that was away is called (D4); 0 if it was not."""
        if self.config.clock != "wall" or not self.timers:
            return 0
        late_ms = self.batch_ms - self.next_deadline_ms()
        return late_ms if late_ms > self.config.away_ms else 0

    def moved_on(self, due_ms: int) -> int:
        """When a lease that was due at this time is due, lateness considered."""
        if self.late_ms and due_ms <= self.batch_ms:
            return due_ms + self.late_ms
        return due_ms

    def next_deadline_ms(self) -> int:
        """The earliest timer, perhaps a stale one; NEVER for none."""
        return self.timers[0][0] if self.timers else NEVER

    # -- what causes what

    def cascade(self) -> None:
        """Deliver the dead letters that wait, and those they cause."""
        dead_lettering = self.dead_lettering
        if dead_lettering.outbox:
            dead_lettering.deliver()
        if self.at_least_once.dying:
            descendants: Descendants = Counter()
            while self.at_least_once.dying:
                self.at_least_once.deliver(descendants)
                dead_lettering.deliver_counted(descendants)

    def _act(self, actor: Actor) -> None:
        if actor is not self.actor:
            self.actor = actor
            self.events.actors.append((len(self.events), actor))
            self.publishing.act(actor.user)

    def note_requeued(self, queue: Queue, copy: Any) -> None:
        """Say that a copy is ready again."""
        self.events.add(Kind.REQUEUED, queue.name, copy, copy.position)

    def note_refused(self, queue: Queue, message: Message, envelope: Envelope) -> None:
        """Say that a full queue refused a message."""
        row = self.events.add(Kind.REFUSED, queue.name)
        self.events.messages[row] = (message, envelope)

    def warn_missing_alternates(self, missing: tuple[tuple[str, str], ...]) -> None:
        """Warn of each missing alternate exchange, once an exchange and topology version."""
        version = self.topology.version
        for exchange, alternate in missing:
            if self._warned.get((exchange, alternate)) != version:
                self._warned[(exchange, alternate)] = version
                detail = {"exchange": exchange, "missing_alternate_exchange": alternate}
                self.events.add(Kind.WARNING, detail=detail)

    def headers_of(self, envelope: Envelope) -> dict[str, Any] | None:
        """The headers that a headers exchange looks at."""
        return matching_headers(envelope)

    # -- queues

    def queue(self, name: str) -> Queue:
        """A declared queue."""
        queue = self._names.get(name)
        if queue is None:
            number, declaration = self.topology.queues[name]
            queue = self._load_queue(number, declaration)
        return queue

    def queue_by_number(self, number: int) -> Queue | None:
        """A declared queue; None if it is gone."""
        queue = self._queues.get(number)
        if queue is None:
            name = self.topology.names.get(number)
            return None if name is None else self.queue(name)
        return queue

    def queue_in_use(self, number: int) -> Queue:
        """A queue that has a consumer or an unacked delivery, hence exists."""
        queue = self.queue_by_number(number)
        assert queue is not None, f"queue {number} is in use and gone"
        return queue

    def new_queue(self, number: int, declaration: Declaration) -> Queue:
        """A queue that has just been declared."""
        return self._load_queue(number, declaration)

    def drop_queue(self, queue: Queue) -> None:
        """Forget a queue that is no longer declared."""
        del self._queues[queue.number]
        del self._names[queue.name]
        queue.record()
        self._queue_records.delete(queue.number)

    def settings_for(self, declaration: Declaration) -> QueueSettings:
        """What is in force for a queue on this lane: limits are divided among the lanes (D2)."""
        settings = self.topology.settings(declaration)
        lanes, lane = self.config.lanes, self.config.lane
        if lanes == 1:
            return settings

        def share(limit: int | None) -> int | None:
            return None if limit is None else limit // lanes + (lane < limit % lanes)

        return msgspec.structs.replace(
            settings,
            max_length=share(settings.max_length),
            max_length_bytes=share(settings.max_length_bytes),
        )

    def _load_queue(self, number: int, declaration: Declaration) -> Queue:
        data = self._queue_records.read(number)
        record = EMPTY if data is None else _queue_decoder.decode(unpack(data))
        kind = QuorumQueue if declaration.queue_type == "quorum" else ClassicQueue
        queue = kind(self, number, declaration, self.settings_for(declaration), record)
        self._resident_messages -= queue.resident_messages()
        self._resident_bytes -= queue.resident_bytes()
        self._queues[number] = queue
        self._names[declaration.name] = queue
        for due_ms, timer in (
            (queue.timer_ms, TimerKind.EXPIRE_MESSAGES),
            (queue.retry_timer_ms, TimerKind.RETRY_HELD),
            (queue.expiry_timer_ms, TimerKind.EXPIRE_QUEUE),
        ):
            if due_ms != NEVER:
                heappush(self.timers, (due_ms, timer, number))
        return queue

    # -- topology and rest

    def topology_changed(self) -> None:
        """What was worked out from the topology is void."""
        self.topology.version += 1
        self._changed_topology = True
        self.dead_lettering.epoch += 1
        self.publishing.forget_plans()

    def _load_topology(self) -> Declared:
        declared = self._cache.take(self.config.compat, self._digest)
        if declared is None:
            data = self.store.read(_TOPOLOGY)
            if data is None:
                declared = Declared(self.config.compat)
            else:
                declared = Declared.decode(data, self.config.compat)
        declared.permissions.enforced = self.config.enforce_permissions
        declared.administrators = self.config.administrators
        declared.default_delivery_limit = self.config.default_delivery_limit
        return declared

    def _save(self) -> None:
        self.channels.save()
        for number, queue in sorted(self._queues.items()):
            next_timer_ms = queue.next_timer_ms()
            self._resident_messages += queue.resident_messages()
            self._resident_bytes += queue.resident_bytes()
            self._queue_records.write(number, pack(_encoder.encode(queue.record())), next_timer_ms)
        self._queue_records.save()
        if self._changed_topology:
            data = self.topology.encode()
            self._digest = digest_of(data)
            self.store.write(_TOPOLOGY, data)
        header = HeaderRecord(
            self.now_ms,
            self.events.first_seq + len(self.events),
            self._digest,
            self._queue_records.timers,
            self.channels.records.timers,
            self._first_outbound + len(self.outbound),
            self._resident_messages,
            self._resident_bytes,
            [
                (*pair, version)
                for pair, version in self._warned.items()
                if version == self.topology.version
            ],
        )
        self.store.write(_HEADER, pack(_encoder.encode(header)))
        self._cache.put(self.config.compat, self._digest, self.topology)


__all__ = ["GROUP_BITS", "Batch", "Shard", "ShardConfig"]
