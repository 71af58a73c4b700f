"""What one channel sends to its client: methods, messages and confirms, in their order.

Confirms wait for the end of a turn, so that publishes in a row share one frame; anything else that
is sent flushes them first.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, Protocol

from streaming.amqp import methods as m
from streaming.amqp.buffers import MAX_WAITING_BYTES, Output
from streaming.amqp.content import (
    SHARED_BODY,
    DeliveryMethod,
    confirm,
    content_frames,
    content_parts,
    got,
    source_of,
)
from streaming.amqp.errors import AmqpError
from streaming.amqp.frames import METHOD, Frame, frame
from streaming.amqp.method_codec import write_method
from streaming.amqp.properties import with_changes
from streaming.amqp.stored import Stored
from streaming.broker.dead_letters.x_death import headers_after
from streaming.broker.message import Envelope
from streaming.broker.outbound import ConfirmOut, DeliveryOut, ReturnOut
from streaming.protocol.record_headers import delivered_headers
from topology.values import Compat, Table

_LEAST_SHARED: Final = 2048
"""The least size of bodies that are not copied for a client for which too much waits already."""

_MAX_WAYS: Final = 200
"""Of one consumer: kinds of messages whose frames begin alike."""


class Peer(Protocol):
    """The connection of a channel.

    Attributes:
        frame_max: the largest frame that the client takes, in bytes.
        hears_cancels: whether the client wants to know of consumers that the server ended.
        user: who logged in.
        impersonates: whether the user may publish in the name of others.
        output: what waits to be sent to the client.
    """

    frame_max: int
    hears_cancels: bool
    user: str
    impersonates: bool
    output: Output

    def fail(self, failure: AmqpError, method: tuple[int, int]) -> None:
        """End the connection because of an error of this channel, behind all that it has asked."""

    def end(self, failure: AmqpError, method: tuple[int, int]) -> None:
        """End the connection now: the broker has ended it."""

    def resume(self, number: int, frames: list[Frame]) -> None:
        """Take the frames of a channel that have waited."""

    def channel_closed(self, number: int) -> None:
        """Forget a channel: both sides agree that it is closed."""


class Confirms:
    """The publisher confirms of one channel.

    Attributes:
        selected: whether the channel confirms.
    """

    def __init__(self) -> None:
        self.selected = False
        self._published = self._taken = 0
        self._numbers: dict[int, int] = {}  # offset of the message -> number; both only grow
        self._acked: list[int] = []
        self._refused: list[int] = []

    @property
    def waits(self) -> bool:
        """Whether there are frames to send."""
        return bool(self._acked or self._refused)

    @property
    def missing(self) -> int:
        """How many publishes the broker has not yet confirmed or refused."""
        return self._published - self._taken - len(self._acked) - len(self._refused)

    def next_number(self) -> int:
        """Count a publish; 0 if the channel does not confirm."""
        if not self.selected:
            return 0
        self._published += 1
        return self._published

    def expect(self, offset: int, number: int) -> None:
        """Wait for what the broker says of a message."""
        self._numbers[offset] = number

    def heard(self, out: ConfirmOut) -> bool:
        """Take what the broker says of a message; whether no other waited."""
        told = self._acked if out.ack else self._refused
        told.append(self._numbers.pop(out.message.offset))
        return len(told) == 1

    def accept(self, number: int) -> None:
        """Confirm a publish that never reached the broker."""
        self._acked.append(number)

    def take(self) -> list[tuple[int, bool, bool]]:
        """Number, ack and multiple of each frame to send; publishes in a row share one."""
        if len(self._acked) == 1 and not self._refused:
            self._taken += 1
            return [(self._acked.pop(), True, False)]
        acked, self._acked = sorted(self._acked), []
        refused, self._refused = sorted(self._refused), []
        self._taken += len(acked) + len(refused)
        oldest = next(iter(self._numbers.values()), self._published + 1)
        acks = _together(acked, min([oldest, *refused[:1]]), single=len(acked) == 1)
        nacks = _together(refused, min([oldest, *acked[:1]]), single=False)
        return [
            *((number, True, multiple) for number, multiple in acks),
            *((number, False, multiple) for number, multiple in nacks),
        ]


def _together(numbers: list[int], end: int, *, single: bool) -> list[tuple[int, bool]]:
    """Number and multiple: one frame for the numbers below `end`, one for each of the others.

    RabbitMQ marks the first as multiple even if it stands for one number; not an ack alone.
    """
    if single:
        return [(numbers[0], False)]
    below = bisect_left(numbers, end)
    first = [(numbers[below - 1], True)] if below else []
    return [*first, *((number, False) for number in numbers[below:])]


class _Way(NamedTuple):
    """How messages with one envelope go to one consumer.

    Attributes:
        untouched: the properties may go out as they came, unless there is a delivery count to show.
    """

    method: DeliveryMethod
    untouched: bool


class Outgoing:
    """What one channel sends."""

    def __init__(self, number: int, peer: Peer, compat: Compat) -> None:
        self.number = number
        self.confirms = Confirms()
        self._peer = peer
        self._output = peer.output
        self._compat: Compat = compat
        self._ways: dict[str, dict[Envelope, _Way]] = {}  # by consumer tag

    @property
    def waiting_bytes(self) -> int:
        """What waits to be sent to the client, by all of its channels."""
        return self._output.waiting_bytes

    def method(self, method: m.Method) -> None:
        """Send a method."""
        self.send_confirms()
        self._output.send(frame(METHOD, self.number, write_method(method)))

    def send_confirms(self) -> None:
        """Send the confirms that wait."""
        if not self.confirms.waits:
            return
        for number, ack, multiple in self.confirms.take():
            self._output.send(confirm(self.number, number, ack=ack, multiple=multiple))

    def deliver(self, out: DeliveryOut, stored: Stored) -> None:
        """Send a delivery to a consumer."""
        envelope = out.copy.envelope
        ways = self._ways.get(out.label)
        way = None if ways is None else ways.get(envelope)
        if way is None:
            way = self._way(out.label, envelope)
        is_redelivered = out.requeue_count > 0 or (out.quorum and out.failures > 0)
        if way.untouched and not is_redelivered:
            properties = stored.properties
        else:
            properties = self._properties(out, stored)
        body = stored.body
        if len(body) >= _LEAST_SHARED and self._shares(body):
            self._content(way.method.alone(out.tag, redelivered=is_redelivered), properties, body)
            return
        frame_max = self._peer.frame_max
        self._output.send(
            way.method.with_content(out.tag, is_redelivered, properties, body, frame_max)
        )

    def _content(self, method: bytes, properties: bytes, body: bytes) -> None:
        """Send the frame of a method, and a message."""
        frame_max = self._peer.frame_max
        if self._shares(body):
            parts = content_parts(self.number, properties, body, frame_max)
            self._output.send_parts([method, *parts])
        else:
            self._output.send(method + content_frames(self.number, properties, body, frame_max))

    def _shares(self, body: bytes) -> bool:
        """Whether a body is sent from where the vhost keeps it.

        One step of the broker may hand out very many messages (`step_size.MAX_AT_ONCE`).
        """
        size = len(body)
        if size >= SHARED_BODY:
            return True
        return size >= _LEAST_SHARED and self._output.waiting_bytes > MAX_WAITING_BYTES

    def _way(self, consumer_tag: str, envelope: Envelope) -> _Way:
        source = source_of(envelope.exchange, envelope.routing_keys[0])
        method = DeliveryMethod(self.number, consumer_tag, source)
        way = _Way(method, untouched=_is_untouched(envelope))
        if way.untouched:
            ways = self._ways.setdefault(consumer_tag, {})
            if len(ways) >= _MAX_WAYS:
                ways.clear()
            ways[envelope] = way
        return way

    def deliver_reply(
        self, consumer_tag: str, tag: int, address: str, properties: bytes, body: bytes
    ) -> None:
        """Send a direct reply."""
        method = DeliveryMethod(self.number, consumer_tag, source_of("", address))
        self._content(method.alone(tag, redelivered=False), properties, body)

    def got(self, out: DeliveryOut, stored: Stored, ready: int) -> None:
        """Send the answer to a get; `ready`: how many messages are left."""
        self.send_confirms()
        envelope = out.copy.envelope
        source = source_of(envelope.exchange, envelope.routing_keys[0])
        method = got(self.number, out.tag, source, ready, redelivered=out.delivery_count > 0)
        self._content(method, self._properties(out, stored), stored.body)

    def returned(self, out: ReturnOut, stored: Stored) -> None:
        """Send a message back to its publisher."""
        envelope = out.envelope
        headers = headers_after(envelope, stored.headers)
        properties = _as_delivered(stored, envelope, headers)
        key = envelope.routing_keys[0]
        returned = m.BasicReturn(out.code, out.text, envelope.exchange, key)
        self.content(returned, properties, stored.body)

    def content(self, method: m.Method, properties: bytes, body: bytes) -> None:
        """Send a method with a message."""
        self.send_confirms()
        self._content(frame(METHOD, self.number, write_method(method)), properties, body)

    def forget_consumer(self, consumer_tag: str) -> None:
        """Forget a consumer that has ended."""
        self._ways.pop(consumer_tag, None)

    def _properties(self, out: DeliveryOut, stored: Stored) -> bytes:
        headers = delivered_headers(out, stored.headers, self._compat)
        return _as_delivered(stored, out.copy.envelope, headers)


def _as_delivered(stored: Stored, envelope: Envelope, headers: Table | None) -> bytes:
    """The properties of a message on its way to a client: the same bytes if nothing changed."""
    properties = stored.properties
    if headers is stored.headers and envelope.expiration == stored.expiration:
        return properties
    return with_changes(properties, headers, stored.headers, envelope.expiration)


def _is_untouched(envelope: Envelope) -> bool:
    """Whether a message with this envelope goes out as it came."""
    changed = envelope.deaths or envelope.added or envelope.dropped or envelope.rerouted
    return not changed and envelope.expiration is None
