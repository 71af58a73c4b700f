"""What a busy connection consists of, read and written by hand: publish, deliver, confirm, ack.

A message is three kinds of frames: a method, a header with its size and properties, and its body,
cut to the frame size.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from streaming.amqp.errors import (
    NOT_IMPLEMENTED,
    UNEXPECTED_FRAME,
    AmqpError,
    MalformedTextError,
    error,
    syntax_error,
)
from streaming.amqp.frames import (
    ACK,
    BASIC,
    BODY,
    FRAME_OVERHEAD,
    HEADER,
    HEADER_FIELDS,
    METHOD,
    frame,
)
from streaming.amqp.method_codec import read_method
from streaming.amqp.methods import BasicPublish
from streaming.amqp.tables import write_short_text
from streaming.broker.message import Publication

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_GET_OK: Final = b"\x00\x3c\x00\x47"
_MAX_KNOWN: Final = 2000

SHARED_BODY: Final = 16 * 1024
"""From this size on, the body of a message is not copied before it is written to the socket."""

_method_head: Final = struct.Struct(">BHI").pack
_tag: Final = struct.Struct(">QB").pack
_content_head: Final = struct.Struct(">BHIHHQ").pack
_read_header: Final = struct.Struct(">HHQ").unpack_from


class PublishMethod(msgspec.Struct, gc=False):
    """A publish, without its content.

    Attributes:
        refusal: what is wrong with it; it is told when the content has come.
        publication: that of messages of whose properties the broker looks at none, once there was
            one.
    """

    exchange: str
    routing_key: str
    mandatory: bool
    refusal: Callable[[], AmqpError] | None = None
    publication: Publication | None = None


class PublishMethods:
    """Reads `basic.publish`; a connection repeats few different ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, PublishMethod] = {}

    def read(self, payload: bytes) -> PublishMethod:
        """Read the payload of the method frame.

        Raises:
            AmqpError: 501, it cannot be read.
        """
        found = self._known.get(payload)
        if found is None:
            found = _read_publish(payload)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[payload] = found
        return found


def _read_publish(payload: bytes) -> PublishMethod:
    try:
        method = read_method(payload)
    except MalformedTextError:
        return PublishMethod("", "", mandatory=False, refusal=MalformedTextError)
    assert isinstance(method, BasicPublish), "the caller has seen the method's numbers"
    refusal = _immediate if method.immediate else None
    return PublishMethod(method.exchange, method.routing_key, method.mandatory, refusal)


def _immediate() -> AmqpError:
    return error(NOT_IMPLEMENTED, "immediate=true")


class Content(NamedTuple):
    """A published message: its method, properties (flags and values) and body."""

    method: PublishMethod
    properties: bytes
    body: bytes


class ContentAssembler:
    """Joins the frames of one channel to messages.

    Attributes:
        method: the publish whose content is arriving; None if a method may come.
        held_bytes: what has come of its body.
    """

    __slots__ = ("_left", "_parts", "_properties", "held_bytes", "method")

    def __init__(self) -> None:
        self.method: PublishMethod | None = None
        self._properties: bytes | None = None
        self._parts: list[bytes] = []
        self._left = 0
        self.held_bytes = 0

    def begin(self, method: PublishMethod) -> None:
        """Expect the content of a publish."""
        self.method = method
        self._properties = None

    def abandon(self) -> None:
        """Forget a message that will not be completed."""
        self.method = None
        self._parts = []
        self.held_bytes = 0

    @property
    def expectation(self) -> AmqpError:
        """505: a method came where content was to come."""
        what, which = "content header", " for class 60"
        if self._properties is not None:
            what, which = "content body", ""
        return error(UNEXPECTED_FRAME, f"expected {what}{which}, got non {what} frame instead")

    def header(self, payload: bytes) -> tuple[int, Content | None]:
        """Take the header frame.

        Returns:
            The size of the body, in bytes, and the message if it has no body.

        Raises:
            AmqpError: 501, 502 or 505.
        """
        if self.method is None or self._properties is not None:
            raise no_method() if self.method is None else self.expectation
        if len(payload) < HEADER_FIELDS + 2:
            raise syntax_error("a content header is too short")
        class_id, weight, size = _read_header(payload)
        if weight:
            raise self.expectation
        if class_id != BASIC:
            raise error(
                UNEXPECTED_FRAME,
                f"expected content header for class 60, got one for class {class_id} instead",
            )
        properties = payload[HEADER_FIELDS:]
        if not size:
            content = Content(self.method, properties, b"")
            self.method = None
            return 0, content
        self._properties, self._left = properties, size
        return size, None

    def body(self, payload: bytes) -> Content | None:
        """Take a body frame; return the message if it is complete.

        Raises:
            AmqpError: 505.
        """
        if self.method is None or self._properties is None:
            raise no_method() if self.method is None else self.expectation
        left = self._left - len(payload)
        if left < 0:
            raise error(UNEXPECTED_FRAME, "the content of a message is longer than its header says")
        if left:
            self._left = left
            self._parts.append(payload)
            self.held_bytes += len(payload)
            return None
        if self._parts:
            self._parts.append(payload)
            payload = b"".join(self._parts)
            self._parts = []
            self.held_bytes = 0
        content = Content(self.method, self._properties, payload)
        self.method = None
        return content


def no_method() -> AmqpError:
    """505: content came without a publish."""
    return error(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")


def source_of(exchange: str, routing_key: str) -> bytes:
    """How a delivery names the exchange and routing key it came by."""
    return write_short_text(exchange) + write_short_text(routing_key)


class DeliveryMethod:
    """The method frame of deliveries to a consumer by one exchange and routing key.

    Args:
        source: see `source_of`.
    """

    __slots__ = ("_after", "_before", "_channel")

    def __init__(self, channel: int, consumer_tag: str, source: bytes) -> None:
        prefix = _DELIVER + write_short_text(consumer_tag)
        self._channel = channel
        self._before = _method_head(METHOD, channel, len(prefix) + 9 + len(source)) + prefix
        self._after = source + b"\xce"

    def alone(self, tag: int, *, redelivered: bool) -> bytes:
        """The method frame of a delivery."""
        return b"%b%b%b" % (self._before, _tag(tag, redelivered), self._after)

    def with_content(
        self,
        tag: int,
        redelivered: bool,  # noqa: FBT001 - by position: this is called for nearly every message
        properties: bytes,
        body: bytes,
        frame_max: int,
    ) -> bytes:
        """The frames of a delivery.

        Args:
            frame_max: the largest frame that the client takes, in bytes; 0 for any size.
        """
        channel = self._channel
        size = len(body)
        if not size or (frame_max and size > frame_max - FRAME_OVERHEAD):
            method = self.alone(tag, redelivered=redelivered)
            return method + content_frames(channel, properties, body, frame_max)
        return b"%b%b%b%b%b\xce%b%b\xce" % (
            self._before,
            _tag(tag, redelivered),
            self._after,
            _content_head(HEADER, channel, HEADER_FIELDS + len(properties), BASIC, 0, size),
            properties,
            _method_head(BODY, channel, size),
            body,
        )


def got(channel: int, tag: int, source: bytes, message_count: int, *, redelivered: bool) -> bytes:
    """The method frame that answers a get; see `DeliveryMethod`."""
    method = _GET_OK + _tag(tag, redelivered) + source + message_count.to_bytes(4)
    return frame(METHOD, channel, method)


def content_frames(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """The header frame and the body frames of a message."""
    size = len(body)
    header = _content_head(HEADER, channel, HEADER_FIELDS + len(properties), BASIC, 0, size)
    if not size:
        return b"%b%b\xce" % (header, properties)
    if not frame_max or size <= frame_max - FRAME_OVERHEAD:
        return b"%b%b\xce%b%b\xce" % (header, properties, _method_head(BODY, channel, size), body)
    return b"".join(content_parts(channel, properties, body, frame_max))


def content_parts(
    channel: int, properties: bytes, body: bytes, frame_max: int
) -> list[bytes | memoryview]:
    """The same frames of a message that has a body, in parts that share its memory."""
    size, view = len(body), memoryview(body)
    limit = frame_max - FRAME_OVERHEAD if frame_max else size
    header = _content_head(HEADER, channel, HEADER_FIELDS + len(properties), BASIC, 0, size)
    parts: list[bytes | memoryview] = [header, properties, b"\xce"]
    for start in range(0, size, limit):
        part = view[start : start + limit]
        parts += (_method_head(BODY, channel, len(part)), part, b"\xce")
    return parts


_ACK_HEAD: Final = struct.Struct(">BHI4sQBB").pack
_NACK: Final = b"\x00\x3c\x00\x78"


_REQUEUE: Final = 2
"""The second flag of a nack: RabbitMQ sets it in those to publishers too."""


def confirm(channel: int, tag: int, *, ack: bool, multiple: bool) -> bytes:
    """The frame that confirms publishes up to a number, or only that one."""
    if ack:
        return _ACK_HEAD(METHOD, channel, 13, ACK, tag, multiple, 0xCE)
    return _ACK_HEAD(METHOD, channel, 13, _NACK, tag, multiple | _REQUEUE, 0xCE)
