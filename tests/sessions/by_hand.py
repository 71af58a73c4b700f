"""Frames that pamqp does not write: tables of any type, contents in pieces, and wrong frames."""

import struct
from typing import Any, Final

from pamqp import base, body, commands, frame, header

TYPED: Final = "!"
"""The only entry of a table whose values say their type: `{"!": {name: [type, value]}}`.

The types are those of a field table: `["s", 5]` is 5 in 16 bits.
"""

MOST: Final = 4088
"""Bytes of a body in one frame."""

HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_FRAME: Final = struct.Struct(">BHI")
_FORMS: Final = dict(zip("bBsuIilfdTt", "bBhHiIqfdQ?", strict=True))
"""The numbers of a field table as `struct` writes them."""


def marshal(one: frame.FrameTypes, channel: int) -> bytes:
    """A frame as bytes; its table, which must be its last field, may say types."""
    properties = getattr(one, "properties", None)
    holder, name = (one, "arguments") if properties is None else (properties, "headers")
    table = getattr(holder, name, None)
    if not isinstance(table, dict) or TYPED not in table:
        return frame.marshal(one, channel)
    setattr(holder, name, {"x": None})  # pamqp leaves empty headers out
    data = frame.marshal(one, channel)
    setattr(holder, name, table)
    kind, _channel, _size = _FRAME.unpack_from(data)
    empty = struct.pack(">I", 3) + b"\1xV"
    assert data.endswith(empty + b"\xce")
    payload = data[_FRAME.size : -len(empty) - 1] + _table(table[TYPED])
    return _frame(kind, channel, payload)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _table(table: dict[str, Any]) -> bytes:
    entries = [
        bytes((len(name.encode()),)) + name.encode() + _value(*typed)
        for name, typed in table.items()
    ]
    return _sized(b"".join(entries))


def _value(kind: str, value: Any) -> bytes:
    match kind:
        case "D":
            data = struct.pack(">BI", *value)
        case "S" | "x":
            data = _sized(value.encode())
        case "A":
            data = _sized(b"".join(_value(*each) for each in value))
        case "F":
            data = _table(value)
        case "V":
            data = b""
        case _:
            data = struct.pack(">" + _FORMS[kind], value)
    return kind.encode() + data


def content_frames(channel: int, method: base.Frame, sizes: list[int]) -> list[bytes]:
    """A method with content, its body in frames of these sizes."""
    bodies = [body.ContentBody(b"." * size) for size in sizes]
    top = header.ContentHeader(body_size=sum(sizes))
    frames: list[frame.FrameTypes] = [method, top, *bodies]
    return [frame.marshal(each, channel) for each in frames]


def wrong_frames(channel: int, kind: str) -> bytes:
    """Frames, one of which may not be where it is."""
    publish = frame.marshal(commands.Basic.Publish(routing_key="q0"), channel)
    top = frame.marshal(header.ContentHeader(body_size=5), channel)
    part = frame.marshal(body.ContentBody(b"12345"), channel)
    match kind:
        case "header first":
            return top
        case "body first":
            return part
        case "method inside":
            return publish + top + publish
        case "other class":
            return publish + _frame(2, channel, struct.pack(">HHQH", 50, 0, 5, 0))
        case "two headers":
            return publish + top + top
        case "too long":
            large = frame.marshal(header.ContentHeader(body_size=2 * MOST), channel)
            return publish + large + frame.marshal(body.ContentBody(b"." * (MOST + 1)), channel)
        case _:
            return frame.marshal(commands.Basic.Publish(routing_key="q0"), 0)
