"""Playing a scenario on the broker core: steps in, outcome out, as recordings of RabbitMQ have it.

    definitions -> wait -> step -> wait -> step ... -> wait until end_ms -> look -> empty the queues

The outcome is what clients see; whoever wants to know why watches, and reads the events.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.events import Actor
from streaming.broker.message import Message
from streaming.broker.outbound import (
    AnswerOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)
from streaming.broker.pages import MemoryStore
from streaming.broker.publishing import CONFIRM, IMMEDIATE, MANDATORY
from streaming.broker.shard import Shard, ShardConfig
from streaming.scenario.document import VERSIONS, Scenario
from streaming.scenario.messages import delivery_record, envelope_record
from streaming.scenario.steps import Publish, Sleep, Step
from topology.errors import Refusal
from topology.values import Compat

VHOST = "<vhost>"
"""What recorded error texts call the virtual host."""

START_MS = 1_600_000_000_000
"""The instant of `at_ms` 0; any would do."""

DRAIN_GAP_MS = 60
SECOND_PASS_MS = 200
DRAIN_CHANNEL = "drain"
DRAIN_COUNT = 1 << 30

Outcome = dict[str, Any]
Phase = Literal["declared", "waited", "stepped", "ended", "emptied"]
"""What has just happened to the broker, in the order of the play."""


class Watcher(Protocol):
    """Somebody who is told of each phase when it is over, while the broker is as it left it."""

    def saw(self, phase: Phase, result: dict[str, Any], step: int | None) -> None:
        """A phase is over.

        Args:
            result: a step's, as recorded; `error` if the definitions were refused; else empty.
            step: its index.
        """


class Player:
    """One scenario on one shard.

    Attributes:
        shard: the broker, for whoever wants to look at its events.
        bodies: body of each message, by offset.
        refs: what the deliveries are called, by row of their event.
    """

    def __init__(self, scenario: Scenario, compat: Compat, watcher: Watcher | None = None) -> None:
        self.scenario = scenario
        self.compat = compat
        self.shard = Shard(ShardConfig(vhost=VHOST, compat=compat), MemoryStore())
        self.bodies: list[str] = []
        self.refs: dict[int, str] = {}
        self._watcher = watcher
        self._actors: dict[str, Actor] = {}
        self._queues = {queue.name for queue in scenario.definitions.queues}
        self._consumers: dict[str, dict[str, Any]] = {}
        self._given: list[DeliveryOut] = []  # not acked automatically, in order

    def play(self) -> Outcome:
        """Everything, the final drain included."""
        self._at(0)
        refusal = self._set_up()
        if refusal is not None:
            error = _error(refusal)
            self._saw("declared", {"error": error})
            return {"setup_error": error}
        self._saw("declared")
        outcome: Outcome = {"steps": [], "depths": {}, "unacked": {}, "queues": {}}
        for index, step in enumerate(self.scenario.steps):
            self._at(step.at_ms)
            self._saw("waited")
            result = self._step(step)
            self._saw("stepped", result, index)
            if result:
                outcome["steps"].append({"step": index, "op": step.op, **result})
        self._at(self.scenario.end_ms)
        self._saw("waited")
        names = sorted(self._queues)
        for name in names:
            outcome["depths"][name] = self._ask(commands.Depth(queue=name)).get("ready")
        self._collect_unacked(outcome)
        if self._consumers:
            outcome["consumers"] = {
                label: consumer["messages"][:] for label, consumer in self._consumers.items()
            }
        self._saw("ended")
        self._drain(outcome, names)
        self._saw("emptied")
        return outcome

    # -- steps

    def _set_up(self) -> Refusal | None:
        declared = self.scenario.definitions
        orders: list[Command] = [
            *(commands.SetPolicy(policy=policy) for policy in declared.policies),
            *(commands.SetOperatorPolicy(policy=policy) for policy in declared.operator_policies),
            *(commands.DeclareExchange(exchange=exchange) for exchange in declared.exchanges),
            *(commands.DeclareQueue(queue=queue) for queue in declared.queues),
            *(commands.Bind(binding=binding) for binding in declared.bindings),
        ]
        for command in orders:
            for out in self._do(command):
                if isinstance(out, AnswerOut) and out.refusal is not None:
                    return out.refusal
        return None

    def _step(self, step: Step) -> dict[str, Any]:
        match step.action:
            case Sleep():
                return {}
            case Publish():
                return self._publish(step.action)
            case commands.Consume(label=label, channel=channel):
                self._consumers[label] = {"messages": [], "channel": channel}
            case commands.DeclareQueue(queue=queue):
                self._queues.add(queue.name)
        result = self._ask(step.action)
        if isinstance(step.action, commands.ImportDefinitions):
            self._queues.update(self.shard.topology.queues)
        return result

    def _publish(self, publish: Publish) -> dict[str, Any]:
        message = self._message(publish.body)
        flags = CONFIRM | (MANDATORY if publish.mandatory else 0)
        flags |= IMMEDIATE if publish.immediate else 0
        actor = self._actor(publish.channel)
        self.shard.publish(self.shard.now_ms, message, publish.publication, flags, actor)
        result: dict[str, Any] = {"confirm": "ack"}
        for out in self._outbound():
            match out:
                case ConfirmOut():
                    result["confirm"] = "ack" if out.ack else "nack"
                case ReturnOut():
                    envelope = out.envelope
                    result["returned"] = {
                        "reply_code": out.code,
                        "reply_text": out.text,
                        "exchange": envelope.exchange,
                        "routing_key": envelope.routing_keys[0],
                        "message": envelope_record(envelope, publish.body, envelope.headers),
                    }
                case PublishErrorOut():
                    return {"error": _error(out.refusal)}
        return result

    def _ask(self, command: Command) -> dict[str, Any]:
        """Do a command and give its result as recorded; empty for one that has none."""
        messages: list[dict[str, Any]] = []
        result: dict[str, Any] = {}
        for out in self._do(command):
            match out:
                case DeliveryOut() if isinstance(command, commands.Get):
                    messages.append(self._record(out))
                case AnswerOut():
                    if out.refusal is not None:
                        return {"error": _error(out.refusal)}
                    result = out.result
        match command:
            case commands.Get():
                return {"messages": messages}
            case commands.Depth() | commands.Purge() | commands.DeleteQueue():
                return result
            case commands.Ack() | commands.Reject() | commands.Nack():
                return result
            case _:
                return {}

    # -- the end

    def _collect_unacked(self, outcome: Outcome) -> None:
        for out in self._given:
            if not self.shard.channels.is_unacked(out.delivery_id):
                continue
            entry = {"ref": out.ref, "body": self._body(out)}
            outcome["unacked"].setdefault(out.queue, []).append(entry)

    def _drain(self, outcome: Outcome, names: list[str]) -> None:
        for label, consumer in self._consumers.items():
            self._ask(commands.Cancel(label=label, channel=consumer["channel"]))
        at_ms = self.scenario.end_ms
        for name in names:
            outcome["queues"][name] = self._empty(name)
            at_ms += DRAIN_GAP_MS
            self._at(at_ms)
        self._at(at_ms + SECOND_PASS_MS)
        second = {name: late for name in names if (late := self._empty(name))}
        if second:
            outcome["second_pass"] = second

    def _empty(self, name: str) -> list[dict[str, Any]] | None:
        get = commands.Get(queue=name, count=DRAIN_COUNT, auto_ack=True, channel=DRAIN_CHANNEL)
        messages = self._ask(get).get("messages")
        for message in messages or ():
            del message["ref"]
        return messages

    # -- the shard

    def _saw(
        self, phase: Phase, result: dict[str, Any] | None = None, step: int | None = None
    ) -> None:
        if self._watcher is not None:
            self._watcher.saw(phase, result or {}, step)

    def _at(self, at_ms: int) -> None:
        self.shard.advance(START_MS + at_ms)
        self._outbound()

    def _do(self, command: Command) -> list[Outbound]:
        channel = getattr(command, "channel", None) or ""
        self.shard.command(self.shard.now_ms, command, self._actor(channel))
        return self._outbound()

    def _outbound(self) -> list[Outbound]:
        """What came out since the last call; consumers keep theirs."""
        out, self.shard.outbound = self.shard.outbound, []
        for one in out:
            if not isinstance(one, DeliveryOut):
                continue
            self.refs[one.row] = one.ref
            if one.delivery_id:
                self._given.append(one)
            consumer = self._consumers.get(one.ref.rpartition("/")[0])
            if consumer is not None and consumer["channel"] == one.actor.channel:
                consumer["messages"].append(self._record(one))
        return out

    def _record(self, out: DeliveryOut) -> dict[str, Any]:
        return {**delivery_record(out, self._body(out), self.compat), "ref": out.ref}

    def _actor(self, channel: str) -> Actor:
        return self._actors.setdefault(channel, Actor(None, channel))

    def _message(self, body: str) -> Message:
        offset = len(self.bodies)
        self.bodies.append(body)
        return Message(0, 0, offset, 0, offset, len(body.encode()))

    def _body(self, out: DeliveryOut) -> str:
        return self.bodies[out.copy.message.offset]


def _error(refusal: Refusal) -> dict[str, Any]:
    return {"code": refusal.code, "text": refusal.text}


def play(scenario: Scenario, compat: Compat = "4.0") -> Outcome:
    """The outcome of a scenario: the document that recorded files have it in."""
    return Player(scenario, compat).play()


__all__ = ["START_MS", "VERSIONS", "VHOST", "Outcome", "Phase", "Player", "Watcher", "play"]
