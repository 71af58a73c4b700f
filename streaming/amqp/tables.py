"""Field tables of AMQP 0-9-1, as RabbitMQ and its clients write them.

    table  = size:uint32 *(name:shortstr type:octet value)
    array  = size:uint32 *(type:octet value)

Types: `t` boolean, `b` `B` 8 bits, `s` `u` 16, `I` `i` 32, `l` `L` 64, `f` `d` floats, `D` decimal,
`S` text, `x` bytes, `T` timestamp, `A` array, `F` table, `V` void. The Python types are those of
`topology.values`.

Every value that is read has a form in JSON, because tables and logs keep it so. What has none is
read as its nearest: text that is not UTF-8 as bytes, NaN and infinities as text, and so on. An
entry that stays as it is keeps its bytes (`rewrite_table`).
"""

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from streaming.amqp.errors import syntax_error
from topology.values import (
    INTEGERS,
    MAX_DEPTH,
    AmqpValue,
    Table,
    Timestamp,
    with_json_form,
)

Entries = dict[str, tuple[int, int]]
"""The entries of a table in its bytes: name -> start and end, the name included."""

MAX_SHORT_TEXT: Final = 255
"""Bytes of a short string."""

_UINT32: Final = struct.Struct(">I")
_DECIMAL: Final = struct.Struct(">BI")
_MAX_SCALE: Final = 255
_MAX_DIGITS: Final = 10


def _fixed(form: str) -> Callable[[bytes, int, int], tuple[AmqpValue, int]]:
    layout = struct.Struct(form)
    size = layout.size

    def read(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
        return layout.unpack_from(data, start)[0], start + size

    return read


def _float(form: str) -> Callable[[bytes, int, int], tuple[AmqpValue, int]]:
    layout = struct.Struct(form)
    size = layout.size

    def read(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
        (value,) = layout.unpack_from(data, start)
        return value if math.isfinite(value) else str(value), start + size

    return read


def _decimal(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
    scale, digits = _DECIMAL.unpack_from(data, start)
    return Decimal(digits).scaleb(-scale), start + 5


def _timestamp(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
    (seconds,) = struct.unpack_from(">Q", data, start)
    return Timestamp(seconds) if seconds in INTEGERS else str(seconds), start + 8


def _sized(data: bytes, start: int) -> tuple[int, int]:
    """The start and the end of a value that begins with its size."""
    (size,) = _UINT32.unpack_from(data, start)
    end = start + 4 + size
    if end > len(data):
        raise syntax_error("a field is longer than its frame")
    return start + 4, end


def _text(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
    start, end = _sized(data, start)
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError:
        return data[start:end], end


def _name(data: bytes) -> str:
    """The name of an entry; bytes that are not UTF-8 are shown in hex."""
    return data.decode("utf-8", "backslashreplace")


def _bytes(data: bytes, start: int, _depth: int) -> tuple[AmqpValue, int]:
    start, end = _sized(data, start)
    return data[start:end], end


def _array(data: bytes, start: int, depth: int) -> tuple[AmqpValue, int]:
    start, end = _sized(data, start)
    items: list[AmqpValue] = []
    while start < end:
        item, start = _value(data, start, depth + 1)
        items.append(item)
    if start != end:
        raise syntax_error("an array ends inside a value")
    return items, end


def _table(data: bytes, start: int, depth: int) -> tuple[AmqpValue, int]:
    table, end = read_table(data, start, depth + 1)
    return with_json_form(table), end


_READERS: Final[dict[int, Callable[[bytes, int, int], tuple[AmqpValue, int]]]] = {
    ord("t"): lambda data, start, _depth: (data[start] != 0, start + 1),
    ord("b"): _fixed(">b"),
    ord("B"): _fixed(">B"),
    ord("s"): _fixed(">h"),
    ord("u"): _fixed(">H"),
    ord("I"): _fixed(">i"),
    ord("i"): _fixed(">I"),
    ord("l"): _fixed(">q"),
    ord("L"): _fixed(">q"),  # unsigned in AMQP's text; RabbitMQ reads it so, and py-amqp writes it
    ord("f"): _float(">f"),
    ord("d"): _float(">d"),
    ord("D"): _decimal,
    ord("S"): _text,
    ord("x"): _bytes,
    ord("T"): _timestamp,
    ord("A"): _array,
    ord("F"): _table,
    ord("V"): lambda _data, start, _depth: (None, start),
}


def _value(data: bytes, start: int, depth: int) -> tuple[AmqpValue, int]:
    if depth >= MAX_DEPTH:  # the table itself is a level too
        raise syntax_error(f"a table is nested more than {MAX_DEPTH} levels deep")
    reader = _READERS.get(data[start])
    if reader is None:
        raise syntax_error(f"a table has a value of unknown type {data[start]}")
    return reader(data, start + 1, depth)


def read_table(data: bytes, start: int = 0, depth: int = 0) -> tuple[Table, int]:
    """Read a table; the last of several entries with one name counts.

    Returns:
        The table, and where it ends.

    Raises:
        AmqpError: 502, it is not a table.
    """
    table: Table = {}
    try:
        start, end = _sized(data, start)
        while start < end:
            after = start + 1 + data[start]
            name = _name(data[start + 1 : after])
            table[name], start = _value(data, after, depth)
    except (struct.error, IndexError):
        raise syntax_error("a table ends inside a value") from None
    if start != end:
        raise syntax_error("a table ends inside a value")
    return table, end


def read_entries(data: bytes, start: int) -> tuple[Entries, int]:
    """Find the entries of a table that `read_table` has accepted; its end follows."""
    entries: Entries = {}
    start, end = _sized(data, start)
    while start < end:
        first, after = start, start + 1 + data[start]
        _, start = _value(data, after, 0)
        entries[_name(data[first + 1 : after])] = first, start
    return entries, end


def write_short_text(text: str) -> bytes:
    """Write a short string: its length in one byte, then UTF-8; what has no room is cut off.

    A text may be longer where it comes from elsewhere: a routing key from the arguments of a queue,
    or the reason of an error from a name.
    """
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_SHORT_TEXT:
        data = data[:MAX_SHORT_TEXT].decode("utf-8", "ignore").encode()
    return bytes((len(data),)) + data


def write_long_text(text: str) -> bytes:
    """Write a long string: its length in four bytes, then UTF-8."""
    data = text.encode("utf-8", "surrogateescape")
    return _UINT32.pack(len(data)) + data


def write_value(value: AmqpValue) -> bytes:
    """Write a value with its type; integers as RabbitMQ writes its own, in 64 bits.

    A time or a decimal that AMQP has no room for is written as text.
    """
    match value:
        case str():
            return b"S" + write_long_text(value)
        case bool():
            return b"t\1" if value else b"t\0"
        case int():
            return b"l" + struct.pack(">q", value)
        case None:
            return b"V"
        case float():
            return b"d" + struct.pack(">d", value)
        case bytes():
            return b"x" + _UINT32.pack(len(value)) + value
        case Timestamp():
            if value.seconds < 0:
                return write_value(str(value.seconds))
            return b"T" + struct.pack(">Q", value.seconds)
        case Decimal():
            return _write_decimal(value)
        case list():
            items = b"".join(map(write_value, value))
            return b"A" + _UINT32.pack(len(items)) + items
        case _:
            return b"F" + write_table(value)


def _write_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a decimal of AMQP is finite"
    if not sign and -_MAX_SCALE <= exponent < _MAX_DIGITS and len(digits) <= _MAX_DIGITS:
        number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
        if number < 1 << 32:
            return b"D" + _DECIMAL.pack(max(-exponent, 0), number)
    return write_value(str(value))


def write_table(table: Table) -> bytes:
    """Write a table with its size."""
    entries = b"".join(
        [write_short_text(name) + write_value(value) for name, value in table.items()]
    )
    return _UINT32.pack(len(entries)) + entries


def rewrite_table(table: Table, data: bytes, entries: Entries, original: Table) -> bytes:
    """Write a table, keeping the bytes of entries that are as they were.

    So a changed table keeps the integer widths that its publisher chose.

    Args:
        data, entries, original: the table before: its bytes, where its entries are, its values.
    """
    parts = []
    for name, value in table.items():
        where = entries.get(name)
        if where is not None and original[name] is value:
            parts.append(data[where[0] : where[1]])
        else:
            parts.append(write_short_text(name) + write_value(value))
    content = b"".join(parts)
    return _UINT32.pack(len(content)) + content
