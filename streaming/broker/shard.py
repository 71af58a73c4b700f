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
Rule 4: a refused command changes nothing but the channel that RabbitMQ would close; a refused
        check not even that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.broker.alternate_warnings import AlternateWarnings
from streaming.broker.batch import Batch
from streaming.broker.channels.registry import ChannelDirectory
from streaming.broker.clock import ShardTime
from streaming.broker.commands import Check
from streaming.broker.dead_letters.at_least_once import AtLeastOnce
from streaming.broker.dead_letters.dead_lettering import DeadLettering
from streaming.broker.dead_letters.rerouting import Rerouting
from streaming.broker.events import CLOCK, Actor, Events, Kind
from streaming.broker.handlers.administration import Administration
from streaming.broker.handlers.channels import Sessions
from streaming.broker.handlers.checking import Checks
from streaming.broker.handlers.settlement import Settlements
from streaming.broker.lanes import BROADCAST_OPS
from streaming.broker.message import NO_COPY, Envelope, Message, Publication
from streaming.broker.outbound import AnswerOut
from streaming.broker.publishing import Publishing
from streaming.broker.queues.consumers import Consumers
from streaming.broker.queues.queue import REFUSED, Queue
from streaming.broker.queues.registry import QueueDirectory
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.schema import HeaderRecord
from streaming.broker.timers import TimerKind, wakings
from streaming.broker.vhost import VhostCache, decode_vhost, digest_of, encode_vhost
from topology.refusals import Refusal
from topology.vhost import Vhost

if TYPE_CHECKING:
    from streaming.broker.commands import Command
    from streaming.broker.config import ShardConfig
    from streaming.broker.dead_letters.at_least_once import Descendants
    from streaming.broker.handlers.channels import Handler
    from streaming.broker.outbound import Outbound
    from streaming.broker.state.paged_fifo import StateStore

_HEADER, _TOPOLOGY = "header", "topology"
_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(HeaderRecord)


class Shard(ShardTime):
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
        cache: VhostCache | None = None,
    ) -> None:
        self.store = store
        self._cache = cache or VhostCache()
        data = store.read(_HEADER)
        header = (
            HeaderRecord(0, 1, b"", {}, {}, 1, 0, 0, [])
            if data is None
            else _header_decoder.decode(unpack(data))
        )
        super().__init__(
            config,
            Events(header.next_seq),
            wakings(header.queue_timers, header.channel_timers),
            now_ms=header.now_ms,
            batch_ms=now_ms,
        )
        self.actor: Actor = CLOCK
        self.outbound: list[Outbound] = []
        self._first_outbound = header.next_outbound
        self._digest = header.topology_digest
        self.topology = self._load_topology()
        self._changed_topology = False
        self.alternate_warnings = AlternateWarnings(self, header.warned)
        self.queues = QueueDirectory(
            self, header.queue_timers, header.resident_messages, header.resident_bytes
        )
        self.channels = ChannelDirectory(self, header.channel_timers)
        self.dead_lettering = DeadLettering(self)
        self.at_least_once = AtLeastOnce(self)
        self.rerouting = Rerouting(self)
        self.consumers = Consumers(self)
        self.settlements = Settlements(self)
        self.publishing = Publishing(self)
        self.administration = Administration(self)
        self.sessions = Sessions(self)
        self._handlers: dict[type, Handler] = {
            **self.administration.handlers(),
            **self.sessions.handlers(),
            Check: Checks(self).check,
        }

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
            self.advance(at_ms)
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
            self.advance(at_ms)
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
            if not isinstance(command, Check):
                self.sessions.close_after_error(actor)
        self.cascade()
        if handler is not None and (self.config.lane == 0 or op not in BROADCAST_OPS):
            refusal = result if isinstance(result, Refusal) else None
            answer = {} if isinstance(result, Refusal) else result
            self.outbound.append(AnswerOut(row, actor, op, command.reply_id, answer, refusal))

    def finish(self) -> Batch:
        """End the batch: with `clock = wall` time moves to its instant; the state is written."""
        if self.config.clock == "wall" and self.batch_ms > self.now_ms:
            self.advance(self.batch_ms)
        next_deadline_ms = self.next_deadline_ms()
        self._save()
        return Batch(
            self.events,
            self.outbound,
            self._first_outbound,
            next_deadline_ms,
            self.now_ms,
            self.queues.resident_messages,
            self.queues.resident_bytes,
        )

    # -- time

    def fire(self, due_ms: int, kind: int, number: int) -> None:
        """Let a timer act, unless it is stale."""
        self._act(CLOCK)
        match kind:
            case TimerKind.SWEEP_CLASSIC | TimerKind.SWEEP_QUORUM:
                queue = self.queues.by_number(number)
                if queue is not None and queue.timer_ms == due_ms:
                    queue.on_timer()
            case TimerKind.WAKE_QUEUES:
                self.queues.wake(number)
            case TimerKind.WAKE_CHANNELS:
                self.channels.wake(number)
            case TimerKind.RETRY_HELD:
                queue = self.queues.by_number(number)
                if queue is not None and queue.retry_timer_ms == due_ms:
                    self.at_least_once.retry(queue)
            case TimerKind.EXPIRE_QUEUE:
                self.administration.queues.queue_expiry_due(number, due_ms)
            case _:
                self.sessions.timer_due(kind, number, due_ms)
        self.cascade()

    def second_passed(self) -> None:
        """Death plans hold the second."""
        self.dead_lettering.epoch += 1

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

    # -- topology and rest

    def topology_changed(self) -> None:
        """What was worked out from the topology is void."""
        self.topology.version += 1
        self._changed_topology = True
        self.dead_lettering.epoch += 1
        self.publishing.forget_plans()

    def _load_topology(self) -> Vhost:
        vhost = self._cache.take(self.config.compat, self._digest)
        if vhost is None:
            data = self.store.read(_TOPOLOGY)
            if data is None:
                vhost = Vhost(self.config.compat)
            else:
                vhost = decode_vhost(data, self.config.compat)
        vhost.enforce_permissions = self.config.enforce_permissions
        vhost.administrators = self.config.administrators
        vhost.default_delivery_limit = self.config.default_delivery_limit
        return vhost

    def _save(self) -> None:
        self.channels.save()
        self.queues.save()
        if self._changed_topology:
            data = encode_vhost(self.topology)
            self._digest = digest_of(data)
            self.store.write(_TOPOLOGY, data)
        header = HeaderRecord(
            self.now_ms,
            self.events.first_seq + len(self.events),
            self._digest,
            self.queues.records.timers,
            self.channels.records.timers,
            self._first_outbound + len(self.outbound),
            self.queues.resident_messages,
            self.queues.resident_bytes,
            self.alternate_warnings.record(),
        )
        self.store.write(_HEADER, pack(_encoder.encode(header)))
        self._cache.put(self.config.compat, self._digest, self.topology)
