"""Play a scenario on a broker; the outcome has the form of the recordings of RabbitMQ.

    definitions -> wait -> step -> wait -> step ... -> wait until end_ms -> look -> empty the queues

The outcome is what clients see; a `Watcher` can read the events to see why. The requests depend on
the scenario alone, never on replies (except that refused definitions end the play). So a play can
also be recorded first and its replies read later.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from streaming.broker import commands
from streaming.broker.commands import MAX_COUNT, Command
from streaming.scenario import replies
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import Scenario
from streaming.scenario.laned_broker import LanedBroker
from streaming.scenario.steps import Publish, Sleep, Step
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError
from topology.values import Compat

DRAIN_GAP_MS = 60
SECOND_PASS_MS = 200
DRAIN_CHANNEL = "drain"

Outcome = dict[str, Any]
Phase = Literal["declared", "waited", "stepped", "ended", "emptied"]
"""The phase that has just ended, in the order of the play."""


class Watcher(Protocol):
    """Is notified at the end of each phase, while the broker is still in that state."""

    def saw(self, phase: Phase, result: dict[str, Any], step: int | None) -> None:
        """Notify with the step's result as recorded; an `error` if definitions were refused."""


class OpenDeliveries:
    """The deliveries that clients consider unacked, by ref, tracked like the recorder did.

    If a queue expires or is deleted with its last consumer, clients are not told, and the broker
    accepts settlements of its messages. So a ref is missing only if it was never delivered, or if
    an earlier step settled or recovered it, closed its channel, or deleted its queue.
    """

    def __init__(self) -> None:
        self._open: dict[str, replies.Delivered] = {}
        self._connections: dict[str, set[str]] = {}  # name -> channels that were opened in it

    def add(self, delivery: replies.Delivered) -> None:
        """Add a delivery; a repeated ref replaces the older one."""
        self._open.pop(delivery.ref, None)
        self._open[delivery.ref] = delivery

    def after(self, command: Command, *, refused: bool) -> None:
        """Forget the deliveries that a command ended; a refused command closes its channel."""
        match command:
            case commands.DeleteQueue(queue=queue) if not refused:
                self._forget(lambda one: one.queue == queue)
            case commands.Recover(channel=channel) | commands.CloseChannel(channel=channel):
                self.left(channel)
            case commands.OpenChannel(channel=channel, connection=str(name)) if not refused:
                self._connections.setdefault(name, set()).add(channel)
            case commands.CloseConnection(connection=name):
                for channel in self._connections.pop(name, ()):
                    self.left(channel)
            case _ if refused and not isinstance(command, commands.Check):
                self.left(getattr(command, "channel", None))

    def left(self, channel: str | None) -> None:
        """Forget the deliveries of a channel."""
        self._forget(lambda one: one.channel == channel)

    def before(self, command: Command) -> set[str]:
        """Settle the refs of a command; return those that are not open."""
        match command:
            case commands.Ack() | commands.Nack() | commands.Reject():
                return {ref for ref in command.refs if not self._settle(ref, command)}
            case commands.Settle():
                self._forget(lambda one: _settles(command, one))
                return set()
            case _:
                return set()

    def _settle(self, ref: str, settlement: commands.Settlement) -> bool:
        delivery = self._open.get(ref)
        if delivery is None or settlement.channel not in {None, delivery.channel}:
            return False
        if getattr(settlement, "multiple", False):
            known = list(self._open)
            older = set(known[: known.index(ref)])
            self._forget(lambda one: one.channel == delivery.channel and one.ref in older)
        del self._open[ref]
        return True

    def _forget(self, ended: Callable[[replies.Delivered], bool]) -> None:
        self._open = {ref: one for ref, one in self._open.items() if not ended(one)}


def _settles(command: commands.Settle, delivery: replies.Delivered) -> bool:
    """Whether a settlement by tag names a delivery."""
    if delivery.channel != command.channel:
        return False
    if command.multiple:
        return not command.tag or delivery.tag <= command.tag
    return command.tag <= delivery.tag <= max(command.tag, command.last)


class Player:
    """Plays one scenario on one broker."""

    def __init__(
        self, scenario: Scenario, broker: replies.Broker, watcher: Watcher | None = None
    ) -> None:
        self.scenario = scenario
        self._broker = broker
        self._watcher = watcher
        self._queues = {queue.name for queue in scenario.definitions.queues}
        self._consumers: dict[str, dict[str, Any]] = {}
        self._given: list[replies.Delivered] = []  # in order, without automatically acked ones
        self._open = OpenDeliveries()

    def play(self) -> Outcome:
        """Play everything, including the final drain."""
        self._at(0)
        error = self._set_up()
        if error is not None:
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

    def _set_up(self) -> dict[str, Any] | None:
        """Declare the topology; return the error if something is refused."""
        declared = self.scenario.definitions
        orders: list[Command] = [
            *(commands.SetPolicy(policy=policy) for policy in declared.policies),
            *(commands.SetOperatorPolicy(policy=policy) for policy in declared.operator_policies),
            *(commands.DeclareExchange(exchange=exchange) for exchange in declared.exchanges),
            *(commands.DeclareQueue(queue=queue) for queue in declared.queues),
            *(commands.Bind(binding=binding) for binding in declared.bindings),
        ]
        for command in orders:
            for reply in self._do(command):
                if isinstance(reply, replies.Answered) and reply.error is not None:
                    return reply.error
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
            case commands.ImportDefinitions(definitions=document):
                self._queues.update(_queues_of(document))
        return self._ask(step.action)

    def _publish(self, publish: Publish) -> dict[str, Any]:
        result: dict[str, Any] = {"confirm": "ack"}
        for reply in self._heard(self._broker.publish(publish)):
            match reply:
                case replies.Confirmed():
                    result["confirm"] = "ack" if reply.ack else "nack"
                case replies.Returned():
                    result["returned"] = {
                        "reply_code": reply.code,
                        "reply_text": reply.text,
                        "exchange": reply.message["exchange"],
                        "routing_key": reply.message["routing_key"],
                        "message": reply.message,
                    }
                case replies.Refused():
                    self._open.left(publish.channel)
                    return {"error": reply.error}
        return result

    def _ask(self, command: Command) -> dict[str, Any]:
        """Run a command; return its result as recorded, empty if it has none."""
        messages: list[dict[str, Any]] = []
        result: dict[str, Any] = {}
        missed = self._open.before(command)
        for reply in self._do(command):
            match reply:
                case replies.Delivered() if _is_of(reply, command):
                    messages.append(_record(reply))
                case replies.Answered():
                    if reply.error is not None:
                        self._open.after(command, refused=True)
                        return {"error": reply.error}
                    result = reply.result
        self._open.after(command, refused=False)
        match command:
            case commands.Get():
                return {"messages": messages}
            case commands.Depth() | commands.Purge() | commands.DeleteQueue():
                return result
            case commands.Ack() | commands.Reject() | commands.Nack():
                missing = [ref for ref in result.get("missing", ()) if ref in missed]
                return {"missing": missing} if missing else {}
            case _:
                return {}

    # -- the end

    def _collect_unacked(self, outcome: Outcome) -> None:
        unacked = self._broker.unacked([delivery.delivery_id for delivery in self._given])
        for delivery in self._given:
            if delivery.delivery_id in unacked:
                entry = {"ref": delivery.ref, "body": delivery.message["body"]}
                outcome["unacked"].setdefault(delivery.queue, []).append(entry)

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
        get = commands.Get(queue=name, count=MAX_COUNT, auto_ack=True, channel=DRAIN_CHANNEL)
        messages = self._ask(get).get("messages")
        for message in messages or ():
            del message["ref"]
        return messages

    # -- the broker

    def _saw(
        self, phase: Phase, result: dict[str, Any] | None = None, step: int | None = None
    ) -> None:
        if self._watcher is not None:
            self._watcher.saw(phase, result or {}, step)

    def _at(self, at_ms: int) -> None:
        self._heard(self._broker.advance(at_ms))

    def _do(self, command: Command) -> list[replies.Reply]:
        return self._heard(self._broker.command(command))

    def _heard(self, heard: list[replies.Reply]) -> list[replies.Reply]:
        """Collect the deliveries in replies; consumers keep theirs."""
        for one in heard:
            if not isinstance(one, replies.Delivered):
                continue
            if one.delivery_id:
                self._given.append(one)
                self._open.add(one)
            consumer = self._consumers.get(one.ref.rpartition("/")[0])
            if consumer is not None and consumer["channel"] == one.channel:
                consumer["messages"].append(_record(one))
        return heard


def _is_of(delivery: replies.Delivered, command: Command) -> bool:
    """Whether a get returned this delivery; dead letters it caused may go to consumers."""
    if not isinstance(command, commands.Get) or delivery.channel != command.channel:
        return False
    return delivery.ref.rpartition("/")[0] == (command.label or "")


def _record(delivery: replies.Delivered) -> dict[str, Any]:
    return {**delivery.message, "ref": delivery.ref}


def _queues_of(document: dict[str, Any]) -> list[str]:
    """The queues that an import declares."""
    try:
        loaded = load_definitions(document, default_vhost=replies.VHOST)
    except InvalidTopologyError:
        return []
    definitions = loaded.vhosts.get(replies.VHOST)
    return [] if definitions is None else [queue.name for queue in definitions.queues]


def play(scenario: Scenario, compat: Compat = "4.0", lanes: int = 1) -> Outcome:
    """Play a scenario on the core; return the outcome as in recorded files."""
    broker = CoreBroker(compat) if lanes == 1 else LanedBroker(compat, lanes)
    return Player(scenario, broker).play()
