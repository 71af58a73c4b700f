"""Reads and writes the payloads of method frames, by the fields of the structs in `methods.py`.

    payload = class:uint16 method:uint16 fields

Publish, deliver and ack, of which a busy connection has little else, are read and written in
`content.py`.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from streaming.amqp.errors import FRAME_ERROR, MalformedTextError, error, syntax_error
from streaming.amqp.methods import METHODS, Method
from streaming.amqp.tables import read_table, write_short_text, write_table
from topology.values import Table

_NUMBERS: Final = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}


@cache
def _layout(kind: type[Method]) -> list[tuple[str, str]]:
    """Name and wire type of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return [(name, get_args(hints[name])[1]) for name in kind.__struct_fields__]


def _short_text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        raise MalformedTextError from None


def _long_text(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4])
    if end > len(data) or at + 4 > len(data):
        raise IndexError
    return data[at + 4 : end], end


def _whole_table(data: bytes, at: int) -> tuple[Table, int]:
    _long_text(data, at)  # it must end before the frame does
    return read_table(data, at)


_READERS: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "shortstr": _short_text,
    "longstr": _long_text,
    "table": _whole_table,
}


def ids_in(payload: bytes) -> tuple[int, int]:
    """Class and number of the method in a frame; zeros if there is no such method."""
    ids = int.from_bytes(payload[:2]), int.from_bytes(payload[2:4])
    return ids if ids in METHODS else (0, 0)


def read_method(payload: bytes) -> Method:
    """Read the payload of a method frame.

    Raises:
        AmqpError: 501, its fields end too early or too late; 502, a table cannot be read, or there
            is no such method.
    """
    ids = int.from_bytes(payload[:2]), int.from_bytes(payload[2:4])
    kind = METHODS.get(ids)
    if kind is None:
        raise syntax_error(f"unknown method {ids[0]}.{ids[1]}")
    values: list[Any] = []
    at, bit, flags = 4, 8, 0
    try:
        for _name, form in _layout(kind):
            if form == "bit":
                if bit == 8:  # noqa: PLR2004 - bits share an octet
                    flags, at, bit = payload[at], at + 1, 0
                values.append(bool(flags >> bit & 1))
                bit += 1
                continue
            bit = 8
            number = _NUMBERS.get(form)
            if number is not None:
                values.append(number.unpack_from(payload, at)[0])
                at += number.size
            else:
                value, at = _READERS[form](payload, at)
                values.append(value)
    except (IndexError, struct.error):
        at = -1
    if at != len(payload):
        fields = ",".join(map(str, payload[4:]))
        raise error(FRAME_ERROR, f"cannot decode <<{fields}>>")
    return kind(*values)


def write_method(method: Method) -> bytes:
    """Write the payload of a method frame."""
    parts = [struct.pack(">HH", *method.ids)]
    bits: list[bool] = []
    for name, form in _layout(type(method)):
        value = getattr(method, name)
        if form == "bit":
            bits.append(value)
            continue
        if bits:
            parts.append(_octet(bits))
            bits = []
        number = _NUMBERS.get(form)
        if number is not None:
            parts.append(number.pack(value))
        elif form == "shortstr":
            parts.append(write_short_text(value))
        elif form == "longstr":
            parts.append(struct.pack(">I", len(value)) + value)
        else:
            parts.append(write_table(value))
    if bits:
        parts.append(_octet(bits))
    return b"".join(parts)


def _octet(bits: list[bool]) -> bytes:
    return bytes((sum(bit << place for place, bit in enumerate(bits)),))
