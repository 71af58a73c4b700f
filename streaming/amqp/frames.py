"""Frames: the units in which AMQP 0-9-1 travels.

    frame = type:uint8 channel:uint16 size:uint32 payload end:0xCE

`FrameReader` turns bytes, cut anywhere, into frames. A server mostly receives two things: a publish
in three frames that follow each other, and acks of deliveries that follow each other. `read_joined`
returns either as one unit.
"""

import struct
from typing import Final, cast

import msgspec

from streaming.amqp.errors import AmqpError
from streaming.amqp.frame_errors import frame_too_large, invalid_frame_end

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8
"""Bytes of a frame besides its payload."""

MIN_FRAME_SIZE: Final = 4096
"""The smallest frame size that a peer may ask for; the login happens in such frames."""

HEADER_SIZE: Final = 7
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

PUBLISH: Final = b"\x00\x3c\x00\x28"
ACK: Final = b"\x00\x3c\x00\x50"
"""The first four bytes of the payload of these methods."""

BASIC: Final = 60
"""The class of all content."""

HEADER_FIELDS: Final = 12
"""Bytes of a content header before the properties: class, weight and size of the body."""

Frame = tuple[int, int, bytes]
"""Type, channel and payload."""


class Published(msgspec.Struct, gc=False):
    """A publish whose body is in one frame.

    Attributes:
        method: the payload of the method frame.
        properties: flags and values.
    """

    channel: int
    method: bytes
    properties: bytes
    body: bytes


class Acks(msgspec.Struct, gc=False):
    """Acks of single deliveries, from a tag to another one."""

    channel: int
    first: int
    last: int


Unit = Frame | Published | Acks


def apart(unit: Unit) -> list[Frame]:
    """The frames that a unit was joined from."""
    if isinstance(unit, Published):
        header = _content_header(BASIC, 0, len(unit.body)) + unit.properties
        return [
            (METHOD, unit.channel, unit.method),
            (HEADER, unit.channel, header),
            (BODY, unit.channel, unit.body),
        ]
    if isinstance(unit, Acks):
        tags = range(unit.first, unit.last + 1)
        return [(METHOD, unit.channel, _ack_method(ACK, tag, 0)) for tag in tags]
    return [unit]


_HEAD: Final = struct.Struct(">BHI")
_CONTENT: Final = struct.Struct(">BHIHHQ")
_ACK_SIZE: Final = 13
_ack: Final = struct.Struct(">BHI4sQBB").pack
_ack_method: Final = struct.Struct(">4sQB").pack
_content_header: Final = struct.Struct(">HHQ").pack


class FrameReader:
    """Splits the bytes of one connection into frames.

    Attributes:
        max_size: the largest frame that is accepted, in bytes; 0 for no limit. As in RabbitMQ, what
            surrounds the payload does not count.
        broken: why what follows the frames read so far cannot be read: 501. Nothing more may be fed
            then.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.broken: AmqpError | None = None
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames that they complete; see `broken`."""
        return cast("list[Frame]", self._read(data, joined=False))

    def feed_joined(self, data: bytes) -> list[Unit]:
        """Take bytes of a client; return what they complete, joined where that is possible."""
        return self._read(data, joined=True)

    def _read(self, data: bytes, *, joined: bool) -> list[Unit]:
        if self._rest:
            data = self._rest + data
        units: list[Unit] = []
        unpack = _HEAD.unpack_from
        at, end = 0, len(data)
        method_frame, method, of_channel = b"", b"", 0  # of the newest publish: few are different
        while end - at >= HEADER_SIZE:
            if method_frame and data.startswith(method_frame, at):
                found = self._published(data, at + len(method_frame), of_channel, method)
                if found:
                    published, at = found
                    units.append(published)
                    continue
            kind, channel, size = unpack(data, at)
            if self.max_size and size > self.max_size:
                self.broken = frame_too_large(kind, size, self.max_size - FRAME_OVERHEAD)
                break
            after = at + HEADER_SIZE + size
            if after >= end:
                break
            payload = data[at + HEADER_SIZE : after]
            if data[after] != FRAME_END:
                self.broken = invalid_frame_end(kind, payload, data[after])
                break
            at = after + 1
            if joined and kind == METHOD and channel:
                ids = payload[:4]
                if ids == PUBLISH:
                    found = self._published(data, at, channel, payload)
                    if found:
                        method_frame = data[at - FRAME_OVERHEAD - size : at]
                        method, of_channel = payload, channel
                        published, at = found
                        units.append(published)
                        continue
                elif ids == ACK and size == _ACK_SIZE and _is_of_one(payload):
                    first = last = int.from_bytes(payload[4:12])
                    while data.startswith(_ack(METHOD, channel, 13, ACK, last + 1, 0, 0xCE), at):
                        last += 1
                        at += _ACK_SIZE + FRAME_OVERHEAD
                    units.append(Acks(channel, first, last))
                    continue
            units.append((kind, channel, payload))
        self._rest = data[at:] if at else data
        return units

    def _published(
        self, data: bytes, at: int, channel: int, method: bytes
    ) -> tuple[Published, int] | None:
        """A publish and its end, if header and body follow its method, the body in one frame."""
        if len(data) - at < _CONTENT.size:
            return None
        kind, of_channel, size, class_id, weight, body = _CONTENT.unpack_from(data, at)
        header_end = at + HEADER_SIZE + size
        after = header_end + FRAME_OVERHEAD + body
        if (
            kind != HEADER
            or weight
            or not body
            or of_channel != channel
            or class_id != BASIC
            or size < HEADER_FIELDS + 2
            or after >= len(data)
            or data[header_end] != FRAME_END
            or data[after] != FRAME_END
            or (self.max_size and max(size, body) > self.max_size)
            or _HEAD.unpack_from(data, header_end + 1) != (BODY, channel, body)
        ):
            return None
        properties = data[at + HEADER_SIZE + HEADER_FIELDS : header_end]
        payload = data[header_end + FRAME_OVERHEAD : after]
        return Published(channel, method, properties, payload), after + 1


_LEAST_SIZES: Final = {METHOD: 4, HEADER: HEADER_FIELDS, BODY: 0, HEARTBEAT: 0}


def is_known(kind: int, payload: bytes) -> bool:
    """Whether there is such a type of frame, and a payload can be of this type."""
    least = _LEAST_SIZES.get(kind)
    return least is not None and len(payload) >= least and not (payload and kind == HEARTBEAT)


def _is_of_one(ack: bytes) -> bool:
    """Whether an ack is of one delivery, whose tag a server may have given."""
    return not ack[12] & 1 and ack[4] < 0x80 and ack[4:12] != bytes(8)  # noqa: PLR2004 - a bit


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Write one frame."""
    return b"%b%b\xce" % (_HEAD.pack(kind, channel, len(payload)), payload)
