"""Frames: the units in which AMQP 0-9-1 travels.

    frame = type:uint8 channel:uint16 size:uint32 payload end:0xCE

`FrameReader` turns bytes, cut anywhere, into frames.
"""

import struct
from typing import Final

from streaming.amqp.errors import FRAME_ERROR, AmqpError, error

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
_KINDS: Final = (METHOD, HEADER, BODY, HEARTBEAT)
FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8
"""Bytes of a frame besides its payload."""

MIN_FRAME_SIZE: Final = 4096
"""The smallest frame size that a peer may ask for; the login happens in such frames."""

HEADER_SIZE: Final = 7
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

Frame = tuple[int, int, bytes]
"""Type, channel and payload."""

_HEAD: Final = struct.Struct(">BHI")


class FrameReader:
    """Splits the bytes of one connection into frames.

    Attributes:
        max_size: the largest whole frame that is accepted, in bytes; 0 for no limit.
        broken: why what follows the frames read so far cannot be read: 501.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.broken: AmqpError | None = None
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames that they complete; see `broken`."""
        if self._rest:
            data = self._rest + data
        frames: list[Frame] = []
        unpack = _HEAD.unpack_from
        at, end = 0, len(data)
        while end - at >= HEADER_SIZE:
            kind, channel, size = unpack(data, at)
            if kind not in _KINDS or (self.max_size and size + FRAME_OVERHEAD > self.max_size):
                self.broken = self._refusal(kind, channel, size)
                break
            after = at + HEADER_SIZE + size
            if after >= end:
                break
            if data[after] != FRAME_END:
                text = f"type {kind}, channel {channel}, {size} octets: invalid frame end marker"
                self.broken = error(FRAME_ERROR, f"{text} {data[after]}")
                break
            frames.append((kind, channel, data[at + HEADER_SIZE : after]))
            at = after + 1
        self._rest = data[at:] if at else data
        return frames

    def _refusal(self, kind: int, channel: int, size: int) -> AmqpError:
        if kind not in _KINDS:
            return error(FRAME_ERROR, f"unknown frame type {kind} on channel {channel}")
        return error(
            FRAME_ERROR,
            f"type {kind}, channel {channel}: a frame of {size} octets is larger than the "
            f"negotiated maximum of {self.max_size}",
        )


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Write one frame."""
    return b"%b%b\xce" % (_HEAD.pack(kind, channel, len(payload)), payload)
