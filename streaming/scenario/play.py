"""Playing a scenario on the broker core: steps in, outcome out, as a recording of RabbitMQ would have it."""

from __future__ import annotations

from typing import Any

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.events import Actor
from streaming.broker.message import Message, Publication
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
from streaming.scenario.document import Publish, Scenario, Sleep, Step
from streaming.scenario.messages import delivery_record, envelope_record
from topology.errors import Refusal
from topology.values import Compat

VHOST = "<vhost>"
"""What recorded error texts call the virtual host."""

START_MS = 1_600_000_000_000
"""The instant of `at_ms` 0; any would do."""

DRAIN_GAP_MS = 60
SECOND_PASS_MS = 200
VERSIONS: dict[Compat, str] = {"4.0": "4.0.5", "3.10": "3.10.8"}
"""Which recorded version a compat stands for."""

Outcome = dict[str, Any]


class Player:
    """One scenario on one shard.

    Attributes:
        shard: the broker, for whoever wants to look at its events.
        bodies: body of each message, by offset.
    """

    def __init__(self, scenario: Scenario, compat: Compat) -> None:
        self.scenario = scenario
        self.compat = compat
        config = ShardConfig(vhost=VHOST, compat=compat)
        self.shard = Shard(config, MemoryStore())
        self.bodies: list[str] = []
        self._actors: dict[str, Actor] = {}
        self._consumers: dict[str, dict[str, Any]] = {}
        self._given: list[DeliveryOut] = []  # not acked automatically, in order

    def play(self) -> Outcome:
        """Everything, the final drain included."""
        self._at(0)
        refusal = self._set_up()
        if refusal is not None:
            return {"setup_error": {"code": refusal.code, "text": refusal.text}}
        outcome: Outcome = {"steps": [], "depths": {}, "unacked": {}, "queues": {}}
        for index, step in enumerate(self.scenario.steps):
            result = self._step(step)
            if result:
                outcome["steps"].append({"step": index, "op": step.op, **result})
        self._at(self.scenario.end_ms)
        names = self._queue_names()
        for name in names:
            result = self._ask(commands.Depth(queue=name))
            outcome["depths"][name] = result.get("ready")
        self._collect_unacked(outcome)
        if self._consumers:
            outcome["consumers"] = {
                label: consumer["messages"][:] for label, consumer in self._consumers.items()
            }
        self._drain(outcome, names)
        return outcome

    # -- steps

    def _set_up(self) -> Refusal | None:
        scenario = self.scenario
        orders: list[Command] = [
            *(commands.SetPolicy(policy=policy) for policy in scenario.policies),
            *(commands.SetOperatorPolicy(policy=policy) for policy in scenario.operator_policies),
            *(commands.DeclareExchange(exchange=exchange) for exchange in scenario.exchanges),
            *(commands.DeclareQueue(queue=queue) for queue in scenario.queues),
            *(commands.Bind(binding=binding) for binding in scenario.bindings),
        ]
        for command in orders:
            for out in self._do(command):
                if isinstance(out, AnswerOut) and out.refusal is not None:
                    return out.refusal
        return None

    def _step(self, step: Step) -> dict[str, Any]:
        self._at(step.at_ms)
        if isinstance(step.action, Sleep):
            return {}
        if isinstance(step.action, Publish):
            return self._publish(step.action)
        if isinstance(step.action, commands.Consume):
            self._consumers[step.action.label] = {"messages": [], "channel": step.action.channel}
        return self._ask(step.action)

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
                    return {"error": {"code": out.refusal.code, "text": out.refusal.text}}
        return result

    def _ask(self, command: Command) -> dict[str, Any]:
        """Do a command and give its result as recorded; empty for one that has none."""
        messages: list[dict[str, Any]] = []
        result: dict[str, Any] = {}
        for out in self._do(command):
            match out:
                case DeliveryOut() if isinstance(command, commands.Get):
                    record = delivery_record(out, self._body(out), self.compat)
                    messages.append(
                        {**record, "ref": out.ref} if command.label != _DRAIN else record
                    )
                case AnswerOut():
                    if out.refusal is not None:
                        return {"error": {"code": out.refusal.code, "text": out.refusal.text}}
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
        get = commands.Get(queue=name, count=1 << 30, label=_DRAIN, auto_ack=True, channel=_DRAIN)
        result = self._ask(get)
        return result.get("messages")

    def _queue_names(self) -> list[str]:
        names = {queue.name for queue in self.scenario.queues}
        for step in self.scenario.steps:
            if isinstance(step.action, commands.DeclareQueue):
                names.add(step.action.queue.name)
        return sorted(names)

    # -- the shard

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
            if one.delivery_id:
                self._given.append(one)
            consumer = self._consumers.get(one.ref.rpartition("/")[0])
            if consumer is not None and consumer["channel"] == one.actor.channel:
                record = delivery_record(one, self._body(one), self.compat)
                consumer["messages"].append({**record, "ref": one.ref})
        return out

    def _actor(self, channel: str) -> Actor:
        return self._actors.setdefault(channel, Actor(None, channel))

    def _message(self, body: str) -> Message:
        offset = len(self.bodies)
        self.bodies.append(body)
        return Message(0, 0, offset, 0, offset, len(body.encode()))

    def _body(self, out: DeliveryOut) -> str:
        return self.bodies[out.copy.message.offset]


_DRAIN = "drain"


def play(scenario: Scenario, compat: Compat = "4.0") -> Outcome:
    """The outcome of a scenario: the document that recorded files have it in."""
    return Player(scenario, compat).play()


__all__ = ["VERSIONS", "Outcome", "Player", "Publication", "play"]
