"""The broker: one shard of one vhost as a function of its log.

    publish / command, in order  -->  Shard  -->  events (the ledger), outbound (to clients)
                                        |
                                   StateStore (between batches)

A batch is `Shard(config, store)`, any number of `publish` and `command`, then `finish`. Equal
state, records and instants give equal events and equal state, wherever the log is cut into
batches.

Time. The clock never goes back, and only records (and `finish`) move it. A record takes effect at
max(clock, its time); timers due up to that instant fire first, in order of deadline (`clock.py`).
A published message's time to live begins at the clock, or with `clock = wall` at the batch's `now`,
because until then the message waited in Kafka and not in a queue.

What one record causes happens at once: first the record itself, then the dead letters it causes,
hop by hop (`dead_lettering.py`), before the next record.

Rule 1: nothing in this package reads a clock, a file, Spark or Kafka, or draws a random number.
Rule 2: iteration order never depends on hashing or on what happens to be in memory.
Rule 3: a copy is born by one event and ends by at most one; its id is the birth's sequence number.
Rule 4: a refused command changes nothing but the channel that RabbitMQ would close; a refused
        check not even that, and a refused part of a redrive cancels the redrive.
"""

from typing import Final, NamedTuple

import msgspec

from streaming.broker import commands
from streaming.broker.clock import TimerKind
from streaming.broker.commands import Command, SettleOutcome
from streaming.broker.config import ShardConfig
from streaming.broker.events import CLOCK, Actor, Events, Kind
from streaming.broker.handlers import (
    channels,
    deployments,
    exchanges,
    import_export,
    lifecycle,
    policies,
    queues,
    redrives,
    settlement,
    settlement_by_tag,
)
from streaming.broker.handlers.access import Handler, Result
from streaming.broker.lanes import ALONE, Answering, RecordId, on_lane
from streaming.broker.message import (
    AWAY,
    CONFIRM,
    IMMEDIATE,
    NO_COPY,
    Envelope,
    Message,
    Publication,
    PublishedPort,
    no_headers_port,
)
from streaming.broker.outbound import AnswerOut, ConfirmOut, Outbound, is_answered
from streaming.broker.overview import (
    BatchOverview,
    ShardOverview,
    batch_overview_of,
    overview_of,
)
from streaming.broker.queues.queue import ACCEPTED, REFUSED
from streaming.broker.redrives.agreement import LaneNote
from streaming.broker.shard_state import ShardState
from streaming.broker.state.schema import Held
from streaming.broker.state.store import StateStore
from streaming.broker.state.vhost_codec import VhostCache
from topology.refusals import Refusal
from topology.vhost import Vhost

HANDLERS: Final[dict[type[Command], Handler]] = {
    commands.Get: channels.get,
    commands.GetOnLanes: channels.get,
    commands.Consume: channels.consume,
    commands.Qos: channels.qos,
    commands.Flow: channels.flow,
    commands.Cancel: channels.cancel,
    commands.Ack: settlement.settle,
    commands.Reject: settlement.settle,
    commands.Nack: settlement.settle,
    commands.Settle: settlement_by_tag.settle,
    commands.Recover: settlement.recover,
    commands.OpenChannel: channels.open_channel,
    commands.Renew: channels.renew,
    commands.CloseChannel: channels.close_channel,
    commands.CloseConnection: channels.close_connection,
    commands.Depth: queues.depth,
    commands.Purge: queues.purge,
    commands.DeleteQueue: queues.delete_queue,
    commands.DeleteExchange: exchanges.delete_exchange,
    commands.DeclareQueue: queues.declare_queue,
    commands.DeclareExchange: exchanges.declare_exchange,
    commands.Bind: exchanges.bind,
    commands.Unbind: exchanges.unbind,
    commands.SetPolicy: policies.set_policy,
    commands.SetOperatorPolicy: policies.set_policy,
    commands.ClearPolicy: policies.clear_policy,
    commands.ClearOperatorPolicy: policies.clear_policy,
    commands.SetPermissions: policies.set_permissions,
    commands.ClearPermissions: policies.clear_permissions,
    commands.SetTopicPermissions: policies.set_topic_permissions,
    commands.ClearTopicPermissions: policies.clear_topic_permissions,
    commands.SetVhostLimit: policies.set_limit,
    commands.ClearVhostLimit: policies.clear_limit,
    commands.SetParameter: policies.set_parameter,
    commands.Deployed: deployments.deployed,
    commands.ImportDefinitions: import_export.import_definitions,
    commands.ExportDefinitions: import_export.export_definitions,
    commands.Check: settlement.check,
    commands.Redrive: redrives.redrive,
    commands.ControlRedrive: redrives.control,
    commands.RedriveVerdict: redrives.verdict,
}
"""The handler of each command; only `Tick` has none, and no answer."""

_OPS: Final = {kind: str(kind.__struct_config__.tag) for kind in HANDLERS}

_RARE_FLAGS: Final = IMMEDIATE | AWAY

_SWEEPS: Final = (TimerKind.SWEEP_CLASSIC, TimerKind.SWEEP_QUORUM)
"""The timers that nearly every expired message needs."""


class Batch(NamedTuple):
    """What a batch did.

    Attributes:
        first_outbound: number of the first outbound record; the numbers are consecutive.
        next_deadline_ms: the earliest timer; NEVER for none.
        now_ms: the shard's clock.
        resident_messages: copies that have not ended: ready, unacked, held, or detached.
        resident_bytes: their bodies.
        overview: the queues that the batch used.
        redrives: how far open redrives have come on this lane, in a vhost of several lanes.
    """

    events: Events
    outbound: list[Outbound]
    first_outbound: int
    next_deadline_ms: int
    now_ms: int
    resident_messages: int
    resident_bytes: int
    overview: BatchOverview
    redrives: list[LaneNote]


class Shard:
    """One shard during one batch.

    Args:
        store: where the state rests.
        now_ms: with `clock = wall` the batch's instant; with `event` ignored.
        cache: decoded vhosts of this worker.
        published: reads the headers of messages that reach a headers exchange.
    """

    def __init__(
        self,
        config: ShardConfig,
        store: StateStore,
        *,
        now_ms: int = 0,
        cache: VhostCache | None = None,
        published: PublishedPort = no_headers_port,
    ) -> None:
        self.state = ShardState(config, store, now_ms, cache or VhostCache(), published)
        self._context = self.state.context
        self._clock = self._context.clock
        self._vhost = self._context.vhost
        self._publishing = self.state.publishing
        self._dead_lettering = self.state.dead_lettering
        self._outbox = self.state.queues.outbox
        self._deaths = self._outbox.deaths
        self._quorum_deaths = self._outbox.quorum_deaths
        self._held = self._outbox.held
        if self.state.is_rebuilt:
            lifecycle.recover(self.state)
            self._finish_step()
        if self.state.lost_a_batch:
            lifecycle.forget_lost_batch(self.state)
            self._finish_step()

    @property
    def now_ms(self) -> int:
        """The clock, epoch milliseconds."""
        return self._clock.now_ms

    @property
    def events(self) -> Events:
        """The events of the batch so far."""
        return self._context.events

    @property
    def outbound(self) -> list[Outbound]:
        """Outbound records, in order."""
        return self._context.outbound

    @property
    def vhost(self) -> Vhost:
        """What is declared."""
        return self._context.vhost

    def overview(self) -> ShardOverview:
        """The numbers worth knowing; loads every queue."""
        return overview_of(self.state)

    # -- the log

    def publish(
        self,
        at_ms: int,
        message: Message,
        publication: Publication,
        flags: int = 0,
        actor: Actor = CLOCK,
    ) -> Refusal | None:
        """Publish a message.

        Args:
            at_ms: the record's timestamp, epoch milliseconds.
            publication: what was asked for; intern equal ones.
            flags: `message.MANDATORY | IMMEDIATE | CONFIRM | AWAY`.
            actor: who published.

        Returns:
            Why it was refused; the channel is closed then.
        """
        clock = self._clock
        if at_ms > clock.now_ms:
            self.advance(at_ms)
        if actor is not self._context.actor:
            self._act(actor)
        plan = self._publishing.plans.get(publication)
        if plan is None:
            plan = self._publishing.plan(publication, message)
        refusal = None
        if flags & _RARE_FLAGS or not plan.plain:
            refusal = self._publishing.publish(message, plan, flags)
            if refusal is not None:
                lifecycle.close_after_error(self.state, actor, refusal)
                self._finish_step()
        else:
            envelope = plan.envelope
            base_ms = clock.publish_base_ms
            events = self._context.events
            row = len(events.kinds)
            is_accepted = True
            for queue in plan.queues:
                answer = queue.arrive(message, envelope, NO_COPY, base_ms)
                if answer != ACCEPTED:
                    is_accepted = False
                    if answer == REFUSED:
                        events.add_refused(queue.name, message, envelope)
            if flags & CONFIRM:
                self._context.outbound.append(ConfirmOut(row, actor, message, is_accepted))
        if self._deaths or self._quorum_deaths or self._held:
            self._dead_lettering.deliver()
        return refusal

    def command(
        self,
        at_ms: int,
        command: Command,
        actor: Actor = CLOCK,
        answering: Answering = ALONE,
        place: RecordId | None = None,
    ) -> None:
        """Carry out a command; its answer goes to `outbound`. See `publish` for the arguments.

        Args:
            place: the record of the command; needed in a vhost of several lanes.
        """
        if at_ms > self._clock.now_ms:
            self.advance(at_ms)
        self._act(actor)
        self._context.place = place
        kind = type(command)
        handler = HANDLERS.get(kind)
        if handler is None:
            return
        events = self._context.events
        row = len(events)
        lifecycle.renew_lease(self.state, actor)
        result: Result = handler(self.state, actor, command)
        refusal = None
        if isinstance(result, Refusal):
            refusal, result = result, {}
            row = self._record_refusal(_OPS[kind], refusal)
            if not isinstance(command, commands.Check):
                lifecycle.close_after_error(self.state, actor, refusal)
        self._finish_step()
        lane = self._context.config.lane
        if lane and "missing" in result:
            result["missing"] = [on_lane(ref, lane) for ref in result["missing"]]
        part: RecordId | None = None
        if answering is not ALONE:
            if answering & Answering.SILENT:
                return
            part = place
        op = _OPS[kind]
        if part is not None or is_answered(op, command.reply_id, result, refusal):
            answer = AnswerOut(row, actor, op, command.reply_id, result, refusal, part)
            self._context.outbound.append(answer)

    def settle(
        self,
        at_ms: int,
        actor: Actor,
        tag: int,
        last: int = 0,
        *,
        multiple: bool = False,
        outcome: SettleOutcome = "ack",
        reason: str | None = None,
    ) -> Refusal | None:
        """Do what the command `Settle` does on the actor's channel; nothing goes to `outbound`.

        Returns:
            Why it was refused; the channel is closed then.
        """
        if at_ms > self._clock.now_ms:
            self.advance(at_ms)
        if actor is not self._context.actor:
            self._act(actor)
        channels = self.state.channels
        channel = channels.get(actor.user, actor.channel)
        if channel is not None:
            channels.used(channel)
        refusal = settlement_by_tag.settle_on(
            self.state, channel, tag, last, multiple=multiple, outcome=outcome, reason=reason
        )
        if refusal is not None:
            self._record_refusal("settle", refusal)
            lifecycle.close_after_error(self.state, actor, refusal)
        self._finish_step()
        return refusal

    def void(self, message: Message, actor: Actor) -> None:
        """Record a publish that does not count (`sequence.fold`): it moves no time either."""
        self._act(actor)
        events = self._context.events
        events.messages[events.add(Kind.VOID)] = (message, None)

    def close_all(self, cause: str) -> None:
        """Close every channel and connection."""
        self._act(CLOCK)
        lifecycle.close_all(self.state, cause)
        self._finish_step()

    def place(
        self,
        queue_name: str,
        message: Message,
        envelope: Envelope,
        since_ms: int,
        *,
        requeue_count: int = 0,
        held: Held | None = None,
    ) -> bool:
        """Put a message into a queue, past the exchanges, as if it had been there for a while.

        Args:
            since_ms: when its time to live began, epoch milliseconds.
            requeue_count: how often it was requeued.
            held: it died, and the queue holds a copy of its own for it.

        Returns:
            Whether there is such a queue.
        """
        if queue_name not in self.vhost.queues:
            return False
        self._act(CLOCK)
        queue = self.state.queues.named(queue_name)
        events = self._context.events
        row = len(events)
        if held is not None:
            copy = queue.new_copy(message, envelope, NO_COPY, since_ms)
            queue.held.add(copy)
            queue.held.keep(msgspec.structs.replace(held, copy=copy))
            retry_ms = self.state.context.config.dead_letter_retry_ms
            since_death_ms = max(0, self._clock.now_ms - held.died_at_s * 1000)
            queue.held.arm_retry(self._clock.now_ms + retry_ms - since_death_ms % retry_ms)
        elif queue.arrive(message, envelope, NO_COPY, since_ms) == REFUSED:
            events.add_refused(queue_name, message, envelope)
        elif requeue_count:
            arrived = events.copies[row]
            assert arrived is not None, "a queue records the copy that it accepts first"
            arrived.requeue_count = requeue_count
        self._finish_step()
        return True

    def finish(self) -> Batch:
        """End the batch: with `clock = wall` time moves to its instant; the state is written."""
        for due_ms, kind, number in self._clock.finish():
            self._fire(due_ms, kind, number)
        self.state.redrives.finish()
        next_deadline_ms = self._clock.next_deadline_ms()
        messages, size = self.state.resident()
        overview = batch_overview_of(self.state)
        self.state.save()
        return Batch(
            self._context.events,
            self._context.outbound,
            self.state.first_outbound,
            next_deadline_ms,
            self._clock.now_ms,
            messages,
            size,
            overview,
            self.state.redrives.notes(),
        )

    def take_outbound(self) -> list[Outbound]:
        """Remove and return what clients are told, before the batch ends."""
        taken = list(self._context.outbound)
        self._context.outbound.clear()
        self.state.first_outbound += len(taken)
        return taken

    def take_timed_out(self) -> list[tuple[str, int]]:
        """Remove and return the channels that a consumer timeout closed, each with the timeout.

        They are in no outbound record: a client of Kafka learns it from its next settlement.
        """
        taken = list(self._context.timed_out)
        self._context.timed_out.clear()
        return taken

    def take_events(self) -> Events:
        """Remove and return the events so far, before the batch ends.

        So a shard can stay open for as long as its log goes on: what it keeps in memory does not
        grow with the number of records. Call `take_outbound` first: outbound records name rows.
        """
        context = self._context
        assert not context.outbound, "outbound records name rows of the events: take them first"
        self.state.redrives.events_taken()
        self.state.drop_stale()
        return context.events.take(self._clock.now_ms, context.actor)

    # -- time

    def advance(self, at_ms: int) -> None:
        """Let time pass up to an instant, as a record at that time would."""
        for due_ms, kind, number in self._clock.advance(at_ms):
            self._fire(due_ms, kind, number)
        self._dead_lettering.refresh()

    def _fire(self, due_ms: int, kind: int, number: int) -> None:
        """Let a timer act, unless it is stale."""
        state = self.state
        self._act(CLOCK)
        if kind in _SWEEPS:
            queue = state.queues.by_number(number)
            if queue is not None and queue.timer_ms == due_ms:
                queue.on_timer()
            if not self._clock.is_next(due_ms, kind):  # all queues expire, then dead-letter
                self._finish_step()
            return
        match kind:
            case TimerKind.WAKE_QUEUES:
                state.queues.wake(number)
            case TimerKind.WAKE_CHANNELS:
                state.channels.wake(number)
            case TimerKind.RETRY_HELD:
                queue = state.queues.by_number(number)
                if queue is not None and queue.held.retry_timer_ms == due_ms:
                    state.dead_lettering.at_least_once.retry(queue)
            case TimerKind.EXPIRE_QUEUE:
                lifecycle.queue_expiry_due(state, number, due_ms)
            case TimerKind.CONTINUE:
                lifecycle.continue_unfinished(state)
            case TimerKind.REDRIVE:
                state.redrives.tick()
            case _:
                lifecycle.channel_timer_due(state, kind, number, due_ms)
        self._finish_step()

    def _record_refusal(self, op: str, refusal: Refusal) -> int:
        """Record that a command was refused; return the row of the event."""
        detail = {"op": op, "code": refusal.code, "text": refusal.text}
        return self._context.events.add(Kind.COMMAND_ERROR, detail=detail)

    def _finish_step(self) -> None:
        """Deliver the dead letters of a command or timer; note what it changed."""
        self._dead_lettering.cascade()
        self._publishing.refresh()
        if self._outbox.unserved:
            self.state.unfinished.add_paused()

    def _act(self, actor: Actor) -> None:
        context = self._context
        if actor is not context.actor:
            context.actor = actor
            self._publishing.act(actor)
            context.events.actors.append((len(context.events), actor))
