"""A client that waits for nothing gets the same frames, in the same order, however late they come.

A session is first played step by step on a broker that answers at once. That decides what the
client sends: it settles what it was given, and opens again what was closed. Then the bytes of that
session go to brokers that answer later, cut anywhere.
"""

import random
import re
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from streaming.amqp import consuming
from streaming.amqp import methods as m
from streaming.amqp.connection import State
from streaming.amqp.frames import METHOD, frame
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.method_codec import write_method
from tests.amqp_client import RawClient, Received, content_frames, memory_broker
from tests.delayed_broker import delayed_broker
from topology.values import Table

REPLY_TO = "amq.rabbitmq.reply-to"
CHANNELS = (1, 2)
WEIGHTS = {
    "declare": 6,
    "unnamed": 2,
    "bind": 3,
    "publish": 16,
    "consume": 5,
    "cancel": 3,
    "get": 8,
    "ack": 16,
    "reject": 4,
    "qos": 2,
    "recover": 1,
    "purge": 1,
    "delete": 2,
    "flow": 2,
    "confirm": 3,
    "select": 2,
    "commit": 4,
    "rollback": 1,
    "replies": 2,
    "reply": 4,
    "close": 1,
    "refused": 2,
    "wrong": 2,
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
        st.sampled_from(CHANNELS),
        st.integers(0, 11),
        st.integers(0, 3),
    ),
    min_size=5,
    max_size=60,
)
_GENERATED = re.compile(r"amq\.gen-[0-9]+")


class Session:
    """What a client sends, decided step by step.

    Attributes:
        sent, came: all of it.
    """

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.sent: list[bytes] = []
        self.came: list[Received] = []
        self._unacked: dict[int, list[int]] = {number: [] for number in CHANNELS}
        self._number = 0
        self._send(2, m.ChannelOpen())
        for channel in CHANNELS:
            for one in (2, 3):
                self._declare(channel, one, 0)
            self._bind(channel, 0, 0)

    def play(self, step: tuple[str, int, int, int]) -> bool:
        """Take a step; return whether the connection is still open."""
        name, channel, one, two = step
        known = self._client.connection.channels.get(channel)
        if known is None or known.closing:
            self._unacked[channel] = []
            if known is not None:
                self._send(channel, m.ChannelCloseOk())
            self._send(channel, m.ChannelOpen())
        getattr(self, "_" + name)(channel, one, two)
        return self._client.connection.state is State.OPEN

    def _send(self, channel: int, method: m.Method) -> None:
        self._raw(frame(METHOD, channel, write_method(method)))

    def _raw(self, data: bytes) -> None:
        self.sent.append(data)
        self._client.raw(data)
        for each in self._client.received():
            self.came.append(each)
            if isinstance(each.method, m.BasicDeliver | m.BasicGetOk):
                self._unacked[each.channel].append(each.method.delivery_tag)

    def _message(self, channel: int, exchange: str, key: str, **properties: Any) -> None:
        self._number += 1
        mandatory = properties.pop("mandatory", False)
        publish = m.BasicPublish(0, exchange, key, mandatory)
        body = b"%d" % self._number
        self._raw(
            frame(METHOD, channel, write_method(publish))
            + content_frames(channel, body, properties)
        )

    # -- steps; names of one channel are its own, so that no other decides what it is told

    def _declare(self, channel: int, one: int, two: int) -> None:
        is_quorum = channel == 2 and one % 2 == 1
        arguments: Table = {"x-queue-type": "quorum"} if is_quorum else {}
        if two == 3:  # not what it was declared with, if it was
            arguments |= {"x-max-length": 1, "x-overflow": "reject-publish"}
        self._send(
            channel,
            m.QueueDeclare(
                queue=f"q{channel}{one % 2}",
                durable=True,
                nowait=one > 8,
                auto_delete=two == 2 and not is_quorum,
                arguments=arguments,
            ),
        )

    def _unnamed(self, channel: int, one: int, two: int) -> None:
        self._send(channel, m.QueueDeclare(exclusive=one % 2 == 1, nowait=two == 3))

    def _queue(self, channel: int, one: int) -> str:
        return f"q{channel}{one % 2}" if one else ""

    def _bind(self, channel: int, one: int, two: int) -> None:
        exchange = f"x{channel}"
        self._send(channel, m.ExchangeDeclare(exchange=exchange, type="fanout", nowait=two == 3))
        self._send(
            channel,
            m.QueueBind(queue=self._queue(channel, one), exchange=exchange, nowait=two == 2),
        )

    def _publish(self, channel: int, one: int, two: int) -> None:
        exchange = f"x{channel}" if one == 11 else ""
        properties = {"reply_to": REPLY_TO} if one == 10 else {}
        key = f"q{channel}{one % 2}" if one else "nowhere"
        self._message(channel, exchange, key, mandatory=two == 3, **properties)

    def _consume(self, channel: int, one: int, two: int) -> None:
        queue = self._queue(channel, one)
        self._send(
            channel,
            m.BasicConsume(
                queue=queue, consumer_tag=f"t{two % 3}", no_ack=one > 8, nowait=two == 3
            ),
        )

    def _cancel(self, channel: int, one: int, two: int) -> None:
        self._send(channel, m.BasicCancel(f"t{two % 3}", nowait=one > 8))

    def _get(self, channel: int, one: int, two: int) -> None:
        self._send(channel, m.BasicGet(queue=self._queue(channel, one), no_ack=two == 3))

    def _tag(self, channel: int, one: int) -> int:
        tags = self._unacked[channel]
        return tags.pop(one % len(tags)) if tags else 0

    def _ack(self, channel: int, one: int, two: int) -> None:
        multiple = two == 3
        if not self._unacked[channel] and one:
            return
        tag = 0 if multiple and one == 11 else self._tag(channel, 0 if two < 2 else one)
        self._send(channel, m.BasicAck(tag, multiple))
        if multiple:
            self._unacked[channel] = [each for each in self._unacked[channel] if tag and each > tag]

    def _reject(self, channel: int, one: int, two: int) -> None:
        requeue = one % 2 == 1
        if not self._unacked[channel] and one:
            return
        tag = self._tag(channel, one)
        method = m.BasicReject(tag, requeue) if two < 2 else m.BasicNack(tag, requeue=requeue)
        self._send(channel, method)

    def _qos(self, channel: int, one: int, two: int) -> None:
        # where the broker itself ends the connection, it may come before frames of other channels
        is_global = two == 3 and channel == 1
        self._send(channel, m.BasicQos(prefetch_count=one % 3, is_global=is_global))

    def _recover(self, channel: int, _one: int, _two: int) -> None:
        self._unacked[channel] = []
        self._send(channel, m.BasicRecover(requeue=True))

    def _purge(self, channel: int, one: int, two: int) -> None:
        self._send(channel, m.QueuePurge(queue=self._queue(channel, one), nowait=two == 3))

    def _delete(self, channel: int, one: int, two: int) -> None:
        queue = self._queue(channel, one)
        self._send(channel, m.QueueDelete(queue=queue, if_unused=one > 6, nowait=two == 3))

    def _flow(self, channel: int, _one: int, _two: int) -> None:
        self._send(channel, m.ChannelFlow(active=True))

    def _confirm(self, channel: int, one: int, _two: int) -> None:
        self._send(channel, m.ConfirmSelect(nowait=one > 8))

    def _select(self, channel: int, _one: int, _two: int) -> None:
        self._send(channel, m.TxSelect())

    def _commit(self, channel: int, _one: int, _two: int) -> None:
        self._send(channel, m.TxCommit())

    def _rollback(self, channel: int, _one: int, _two: int) -> None:
        self._send(channel, m.TxRollback())

    def _replies(self, _channel: int, one: int, two: int) -> None:
        self.play(("flow", 1, 0, 0))  # opens the channel
        method = m.BasicConsume(queue=REPLY_TO, consumer_tag=f"t{two % 3}", no_ack=one != 0)
        self._send(1, method)

    def _reply(self, _channel: int, _one: int, two: int) -> None:
        self.play(("flow", 1, 0, 0))
        self._message(1, "", f"{REPLY_TO}.name", mandatory=two == 3)

    def _close(self, channel: int, one: int, _two: int) -> None:
        if one:
            self._send(channel, m.ChannelClose())
            self._unacked[channel] = []
        else:
            self._send(0, m.ConnectionClose())

    def _refused(self, channel: int, one: int, _two: int) -> None:
        if one % 3 == 0:
            self._message(channel, "none", "k")
        elif one % 3 == 1:
            self._send(channel, m.BasicGet(queue="none"))
        else:
            self._send(channel, m.BasicReject(1000, requeue=True))

    def _wrong(self, channel: int, one: int, _two: int) -> None:
        """What the server refuses without asking the broker."""
        method: m.Method = m.ExchangeDeclare(passive=True)
        if one == 0:
            method = m.BasicQos(prefetch_size=1)
        elif one == 1:
            method = m.ChannelFlow(active=False)
        elif one == 2:
            method = m.ChannelOpen()
        elif one == 3:
            method = m.ChannelCloseOk()
        elif one < 8:
            method = m.QueueDeclare(passive=True)
        self._send(channel, method)


Told = tuple[dict[int, list[list[Received]]], dict[int, list[set[tuple[int, bool]]]]]


def told(came: list[Received]) -> Told:
    """By channel: everything but confirms, in order; and the publishes that were confirmed.

    Both since each opening of the channel. When confirms come is chance, as in RabbitMQ.
    """
    rest: dict[int, list[list[Received]]] = {0: [[]], 1: [[]], 2: []}
    confirms: dict[int, list[set[tuple[int, bool]]]] = {1: [set()], 2: []}
    for each in came:
        method = each.method
        if isinstance(method, m.ChannelOpenOk):
            rest[each.channel].append([])
            confirms[each.channel].append(set())
        if isinstance(method, m.BasicAck | m.BasicNack):
            is_ack = isinstance(method, m.BasicAck)
            known = confirms[each.channel][-1]
            first = 1 if method.multiple else method.delivery_tag
            told_before = {number for number, _ in known}
            numbers = set(range(first, method.delivery_tag + 1)) - told_before
            known.update((number, is_ack) for number in numbers)
        else:
            rest[each.channel][-1].append(each)
    return rest, confirms


def shown(came: list[Received]) -> Any:
    """What can be compared: names that the broker gave are replaced in the order of the channel."""
    rest, confirms = told(came)
    texts = {channel: with_own_names(openings) for channel, openings in rest.items()}
    return texts, confirms


def with_own_names(openings: list[list[Received]]) -> list[list[str]]:
    """What came on one channel, as text."""
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{len(names)}>")

    return [[_GENERATED.sub(name, str(each)) for each in opening] for opening in openings]


def at_random(chance: random.Random, data: bytes) -> list[bytes]:
    """The bytes, cut anywhere."""
    cuts = sorted(chance.randrange(len(data)) for _ in range(chance.choice((0, 3, 30))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(STEPS, st.integers(0, 1000))
def test_a_client_that_waits_for_nothing_is_told_the_same(steps, seed):
    with patch.object(consuming, "random_name", lambda: "name"):
        session = Session(RawClient(memory_broker()))
        for step in steps:
            if not session.play(step):
                break
        chance = random.Random(seed)

        for broker in (delayed_broker(), delayed_broker(seed), delayed_broker(seed + 1)):
            assert played(broker, at_random(chance, b"".join(session.sent))) == shown(session.came)


def played(broker: MemoryBroker, parts: list[bytes]) -> Any:
    client = RawClient(broker)
    for part in parts:
        client.raw(part)
    return shown(client.received())
