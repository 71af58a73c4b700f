"""State as bytes: one version byte, then msgpack.

Every value in a `StateStore` goes through `pack` and `unpack`. A changed layout gets the next
version number, and state of any other version is refused.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

from topology.values import Timestamp

STATE_VERSION: Final = 1

_PLAIN = frozenset({str, int, bool, float, type(None), bytes})
_TIMESTAMP, _DECIMAL, _BIG_INTEGER = 1, 2, 3
_INT64 = range(-(1 << 63), 1 << 64)

_encoder = msgspec.msgpack.Encoder()


class StateVersionError(Exception):
    """State written by another version of this program."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version

    def __str__(self) -> str:
        return (
            f"the state has version {self.version}, but this program reads version "
            f"{STATE_VERSION}: run the version of the program that wrote it"
        )


def pack(payload: bytes) -> bytes:
    """Prepend the version byte."""
    return bytes((STATE_VERSION,)) + payload


def unpack(value: bytes) -> bytes:
    """Remove the version byte.

    Raises:
        StateVersionError: the value has another version.
    """
    if value[0] != STATE_VERSION:
        raise StateVersionError(value[0])
    return value[1:]


def to_msgpack(value: Any) -> Any:
    """Replace values of a table that msgpack lacks by extensions."""
    match value:
        case Timestamp():
            return msgspec.msgpack.Ext(_TIMESTAMP, str(value.seconds).encode())
        case Decimal():
            return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
        case int() if value not in _INT64:
            return msgspec.msgpack.Ext(_BIG_INTEGER, str(value).encode())
        case list():
            return [to_msgpack(item) for item in value]
        case dict():
            return {name: to_msgpack(item) for name, item in value.items()}
        case _:
            return value


def from_msgpack(code: int, data: memoryview) -> Any:
    """Read an extension that `to_msgpack` wrote."""
    text = bytes(data).decode()
    if code == _TIMESTAMP:
        return Timestamp(int(text))
    if code == _DECIMAL:
        return Decimal(text)
    return int(text)


_table_decoder: msgspec.msgpack.Decoder[dict[str, Any] | None] = msgspec.msgpack.Decoder(
    dict[str, Any] | None, ext_hook=from_msgpack
)


def encode_table(table: dict[str, Any] | None) -> bytes:
    """Encode an AMQP table; types that msgpack lacks become extensions, so that they survive."""
    if table:
        for value in table.values():
            if type(value) not in _PLAIN or (type(value) is int and value not in _INT64):
                return _encoder.encode(to_msgpack(table))
    return _encoder.encode(table)


def decode_table(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """Decode a table that `encode_table` returned."""
    return _table_decoder.decode(data)
