"""Plays a scenario through AMQP: frames of a client, as the recorder of the outcomes sent them.

Policies are not AMQP's: an operator sets them. A refusal closes the channel; the next step opens it
again.
"""

from typing import Any

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.amqp.memory import MemoryBroker
from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.protocol.amqp_properties import PROPERTIES
from streaming.scenario import replies
from streaming.scenario.core_broker import normalised
from streaming.scenario.document import Scenario
from streaming.scenario.play import Outcome, Player
from streaming.scenario.steps import Publish
from tests.amqp_client import RawClient, Received

ADMIN = "admin"


def play(scenario: Scenario, broker: MemoryBroker) -> Outcome:
    """Play a scenario through AMQP; return the outcome as in recorded files."""
    limits = any(isinstance(step.action, commands.Qos) for step in scenario.steps)
    return Player(scenario, AmqpBroker(broker, limits_channels=limits)).play()


class _Delivery:
    """A delivery that its client has not settled, as far as it knows."""

    def __init__(self, channel: str, number: int, tag: int, queue: str) -> None:
        self.channel = channel
        self.number = number
        self.tag = tag
        self.queue = queue


class AmqpBroker:
    """A `replies.Broker` behind a connection of AMQP.

    Args:
        broker: a new one; its clock is moved by hand.
        limits_channels: whether the scenario sets the prefetch of channels, so that a consumer
            without one must not.
    """

    def __init__(self, broker: MemoryBroker, *, limits_channels: bool) -> None:
        assert isinstance(broker.clock, ManualClock), "a scenario moves the clock"
        self._clock = broker.clock
        self._broker = broker
        self._broker.server.follows_wall_clock = False
        self._vhost = self._broker.add_vhost(replies.VHOST)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self._broker.do(self._vhost, commands.SetPermissions(user="guest", **everything))
        self._client = RawClient(self._broker, vhost=replies.VHOST)
        self._limits_channels = limits_channels
        self._numbers: dict[str, int] = {}  # of the open channels
        self._next_number = 2
        self._consumers: dict[str, tuple[str, str, bool]] = {}  # channel, queue, automatic ack
        self._counts: dict[str, int] = {}
        self._unacked: dict[str, _Delivery] = {}  # by ref, in order
        self._heard: list[replies.Reply] = []
        self._error: dict[str, Any] | None = None
        self._last: m.Method | None = None
        self._get: tuple[str, str, str, bool] | None = None  # channel, queue, label, automatic ack

    # -- what a player asks

    def advance(self, at_ms: int) -> list[replies.Reply]:
        """See `Broker`."""
        self._clock.move_to(replies.START_MS + at_ms)
        self._broker.server.advance()
        self._hear()
        return self._take()

    def publish(self, publish: Publish) -> list[replies.Reply]:
        """See `Broker`."""
        number = self._channel(publish.channel)
        self._client.send(number, m.ConfirmSelect(nowait=True))
        sent = publish.publication
        properties = {**publish.properties, "headers": publish.headers}
        body, mandatory = publish.body.encode(), publish.mandatory
        exchange, key = sent.exchange, sent.routing_key
        self._client.publish(exchange, key, body, number, mandatory=mandatory, **properties)
        self._hear()
        if self._error is not None:
            self._heard.append(replies.Refused(self._error))
        return self._take()

    def command(self, command: Command) -> list[replies.Reply]:
        """See `Broker`."""
        result = self._result(command)
        self._heard.append(replies.Answered({} if self._error else result, self._error))
        return self._take()

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """See `Broker`; a queue may be gone without its client knowing."""
        queues = self._vhost.shard.vhost.queues
        return {
            f"{delivery.number}/{delivery.tag}"
            for delivery in self._unacked.values()
            if delivery.queue in queues
        } & set(delivery_ids)

    def _take(self) -> list[replies.Reply]:
        heard, self._heard, self._error = self._heard, [], None
        return heard

    # -- commands

    def _result(self, command: Command) -> dict[str, Any]:
        match command:
            case commands.Get():
                return self._do_get(command)
            case commands.Consume():
                return self._consume(command)
            case commands.Ack() | commands.Reject() | commands.Nack():
                return self._settle(command)
            case commands.Settle():
                return self._settle_tags(command)
            case commands.CloseChannel(channel=channel):
                self._close(channel)
                return {}
            case commands.Recover(channel=channel):
                self._drop(lambda delivery: delivery.channel == channel)
                self._ask(channel, m.BasicRecover(requeue=True))
                return {}
            case commands.Cancel(label=label):
                channel = self._consumers[label][0]
                if channel in self._numbers:
                    self._ask(channel, m.BasicCancel(label))
                return {}
            case commands.DeleteQueue(queue=queue):
                deleted = self._ask(ADMIN, m.QueueDelete(queue=queue))
                self._drop(lambda delivery: delivery.queue == queue)
                count = deleted.message_count if isinstance(deleted, m.QueueDeleteOk) else 0
                return {"deleted_ready": count}
            case commands.Depth(queue=queue):
                found = self._ask(ADMIN, m.QueueDeclare(queue=queue, passive=True))
                return {"ready": getattr(found, "message_count", None)}
            case commands.Purge(queue=queue):
                return {
                    "purged": getattr(
                        self._ask(ADMIN, m.QueuePurge(queue=queue)), "message_count", 0
                    )
                }
            case _:
                return self._declare(command)

    def _declare(self, command: Command) -> dict[str, Any]:
        match command:
            case commands.Qos():
                qos = m.BasicQos(0, command.prefetch, command.is_global)
                self._ask(command.channel, qos)
            case commands.DeclareQueue(queue=queue):
                self._ask(
                    ADMIN,
                    m.QueueDeclare(
                        0,
                        queue.name,
                        durable=queue.durable,
                        auto_delete=queue.auto_delete,
                        arguments=queue.arguments,
                    ),
                )
            case commands.DeclareExchange(exchange=exchange):
                self._ask(
                    ADMIN,
                    m.ExchangeDeclare(
                        0,
                        exchange.name,
                        exchange.type,
                        durable=exchange.durable,
                        auto_delete=exchange.auto_delete,
                        internal=exchange.internal,
                        arguments=exchange.arguments,
                    ),
                )
            case commands.DeleteExchange(exchange=name):
                self._ask(ADMIN, m.ExchangeDelete(exchange=name))
            case commands.Bind(binding=one):
                where = (0, one.destination, one.source, one.routing_key)
                kind = m.QueueBind if one.destination_type == "queue" else m.ExchangeBind
                self._ask(ADMIN, kind(*where, arguments=one.arguments))
            case commands.Unbind(binding=one):
                where = (0, one.destination, one.source, one.routing_key)
                gone = m.QueueUnbind if one.destination_type == "queue" else m.ExchangeUnbind
                self._ask(ADMIN, gone(*where, arguments=one.arguments))
            case _:
                refusal = self._broker.do(self._vhost, command).refusal
                self._error = None if refusal is None else replies.error_record(refusal)
                self._hear()
        return {}

    def _do_get(self, command: commands.Get) -> dict[str, Any]:
        label = command.label or ""
        self._get = command.channel, command.queue, label, command.auto_ack
        self._counts[label] = 0
        for _ in range(command.count):
            got = self._ask(command.channel, m.BasicGet(0, command.queue, command.auto_ack))
            if not isinstance(got, m.BasicGetOk):
                break
        return {"delivered": self._counts[label]}

    def _consume(self, command: commands.Consume) -> dict[str, Any]:
        label, channel = command.label, command.channel
        if command.prefetch or not self._limits_channels:
            self._ask(channel, m.BasicQos(prefetch_count=command.prefetch))
        self._consumers[label] = channel, command.queue, command.auto_ack
        self._counts[label] = 0
        self._ask(
            channel,
            m.BasicConsume(
                0,
                command.queue,
                label,
                no_ack=command.auto_ack,
                exclusive=command.exclusive,
                arguments=command.arguments,
            ),
        )
        return {"consumer": label}

    def _settle(self, command: commands.Settlement) -> dict[str, Any]:
        missing = []
        multiple = not isinstance(command, commands.Reject) and command.multiple
        requeue = not isinstance(command, commands.Ack) and command.requeue
        for ref in command.refs:
            found = self._unacked.get(ref)
            if found is None:
                missing.append(ref)
                continue
            tag = found.tag
            method = {
                commands.Ack: m.BasicAck(tag, multiple),
                commands.Reject: m.BasicReject(tag, requeue),
                commands.Nack: m.BasicNack(tag, multiple, requeue),
            }[type(command)]
            self._client.send(found.number, method)
            self._drop(
                lambda one, found=found: (
                    one.number == found.number
                    and (one.tag == found.tag or (multiple and one.tag < found.tag))
                )
            )
            self._hear()
        return {"missing": missing} if missing else {}

    def _settle_tags(self, command: commands.Settle) -> dict[str, Any]:
        number, tag = self._channel(command.channel), command.tag
        last = max(tag, command.last)
        self._drop(  # before what is delivered in turn
            lambda one: (
                one.number == number
                and (not tag or one.tag <= tag if command.multiple else tag <= one.tag <= last)
            )
        )
        for each in range(tag, last + 1):
            if command.outcome == "ack":
                self._client.send(number, m.BasicAck(each, command.multiple))
            else:
                requeue = command.outcome == "requeue"
                self._client.send(number, m.BasicNack(each, command.multiple, requeue))
            self._hear()
        return {}

    # -- frames

    def _channel(self, name: str) -> int:
        """The number of a channel; opened if it is not."""
        if name not in self._numbers:
            self._numbers[name] = self._next_number
            self._next_number += 1
            self._client.send(self._numbers[name], m.ChannelOpen())
            self._hear()
        return self._numbers[name]

    def _ask(self, channel: str, method: m.Method) -> m.Method | None:
        """Send a method; return its answer, None if it was refused."""
        number = self._channel(channel)
        self._last = None
        self._client.send(number, method)
        self._hear()
        return self._last

    def _close(self, name: str) -> None:
        if name in self._numbers:
            self._client.send(self._numbers.pop(name), m.ChannelClose())
            self._hear()
        self._drop(lambda delivery: delivery.channel == name)

    def _drop(self, settled: Any) -> None:
        self._unacked = {ref: one for ref, one in self._unacked.items() if not settled(one)}

    def _hear(self) -> None:
        """Understand what has come from the server."""
        for received in self._client.received():
            self._understand(received)

    def _understand(self, received: Received) -> None:
        method = received.method
        match method:
            case m.BasicDeliver(consumer_tag=label):
                self._deliver(received, method.delivery_tag, method.redelivered, label)
            case m.BasicGetOk():
                self._last = method
                assert self._get is not None, "a get was sent"
                self._deliver(received, method.delivery_tag, method.redelivered, self._get[2])
            case m.BasicAck() | m.BasicNack():
                self._heard.append(replies.Confirmed(isinstance(method, m.BasicAck)))
            case m.BasicReturn():
                message = _message(received, method.exchange, method.routing_key)
                code, text = method.reply_code, method.reply_text
                self._heard.append(replies.Returned(code, text, message))
            case m.ChannelClose():
                self._error = {"code": method.reply_code, "text": method.reply_text}
                self._client.send(received.channel, m.ChannelCloseOk())
                (name,) = [name for name, one in self._numbers.items() if one == received.channel]
                del self._numbers[name]
                self._drop(lambda delivery: delivery.number == received.channel)
            case m.ConnectionClose():
                raise AssertionError(f"the connection was closed: {method.reply_text}")
            case m.BasicCancel():
                pass
            case _:
                self._last = method

    def _deliver(self, received: Received, tag: int, redelivered: bool, label: str) -> None:
        of_get = isinstance(received.method, m.BasicGetOk)
        if of_get:
            assert self._get is not None, "a get was sent"
            channel, queue, _label, auto_ack = self._get
        else:
            channel, queue, auto_ack = self._consumers[label]
        method = received.method
        assert isinstance(method, m.BasicGetOk | m.BasicDeliver), "it is one of these"
        message = _message(received, method.exchange, method.routing_key)
        message["redelivered"] = redelivered
        ref = f"{label}/{self._counts[label]}" if label else ""
        self._counts[label] += 1
        delivery_id = "" if auto_ack else f"{received.channel}/{tag}"
        if delivery_id:
            self._unacked.pop(ref, None)
            self._unacked[ref] = _Delivery(channel, received.channel, tag, queue)
        self._heard.append(replies.Delivered(channel, ref, delivery_id, queue, message))


def _message(received: Received, exchange: str, routing_key: str) -> dict[str, Any]:
    """A message as recorded."""
    properties = received.properties or {}
    return {
        "body": received.body.decode("utf-8", "backslashreplace"),
        "exchange": exchange,
        "routing_key": routing_key,
        "properties": {
            name: normalised(properties[name]) for name in PROPERTIES if name in properties
        },
        "headers": normalised(properties.get("headers")),
    }
