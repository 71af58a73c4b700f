"""State as bytes: one version byte, then msgpack.

Every value in a `StateStore` goes through `pack` and `unpack`. A new layout gets the next version
number and an entry in the upgrades of its kind; reading applies them one after the other. So state
of any earlier version can be read. Only `encoding.py`, `page_upgrades.py` and `record_groups.py`
know of versions.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from topology.values import Timestamp

STATE_VERSION = 4

Upgrades = Mapping[int, Callable[[bytes], bytes]]
"""Version n -> a function that turns a payload of version n into one of version n + 1; layouts
that did not change with a version have no entry for it."""

NO_UPGRADES: Upgrades = {}

_PLAIN = frozenset({str, int, bool, float, type(None), bytes})
_TIMESTAMP, _DECIMAL, _BIG_INTEGER = 1, 2, 3
_INT64 = range(-(1 << 63), 1 << 64)

_encoder = msgspec.msgpack.Encoder()


class StateVersionError(Exception):
    """State written by a newer version of this program."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version

    def __str__(self) -> str:
        return (
            f"the state has version {self.version}, but this program reads versions up to "
            f"{STATE_VERSION}: run the version that wrote it, or a newer one"
        )


def pack(payload: bytes) -> bytes:
    """Prepend the version byte."""
    return bytes((STATE_VERSION,)) + payload


def unpack(value: bytes, upgrades: Upgrades = NO_UPGRADES) -> bytes:
    """Remove the version byte and upgrade older payloads.

    Raises:
        StateVersionError: the value was written by a newer program.
    """
    version = value[0]
    if version > STATE_VERSION:
        raise StateVersionError(version)
    payload = value[1:]
    for step in range(version, STATE_VERSION):
        if step in upgrades:
            payload = upgrades[step](payload)
    return payload


def version_of(value: bytes) -> int:
    """The version of the state that a value was written with."""
    return value[0]


def _to_msgpack(value: Any) -> Any:
    match value:
        case Timestamp():
            return msgspec.msgpack.Ext(_TIMESTAMP, str(value.seconds).encode())
        case Decimal():
            return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
        case int() if value not in _INT64:
            return msgspec.msgpack.Ext(_BIG_INTEGER, str(value).encode())
        case list():
            return [_to_msgpack(item) for item in value]
        case dict():
            return {name: _to_msgpack(item) for name, item in value.items()}
        case _:
            return value


def _from_msgpack(code: int, data: memoryview) -> Any:
    text = bytes(data).decode()
    if code == _TIMESTAMP:
        return Timestamp(int(text))
    if code == _DECIMAL:
        return Decimal(text)
    return int(text)


_table_decoder: msgspec.msgpack.Decoder[dict[str, Any] | None] = msgspec.msgpack.Decoder(
    dict[str, Any] | None, ext_hook=_from_msgpack
)


def encode_table(table: dict[str, Any] | None) -> bytes:
    """Encode an AMQP table; types that msgpack lacks become extensions, so that they survive."""
    if table:
        for value in table.values():
            if type(value) not in _PLAIN or (type(value) is int and value not in _INT64):
                return _encoder.encode({name: _to_msgpack(item) for name, item in table.items()})
    return _encoder.encode(table)


def decode_table(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """Decode a table that `encode_table` returned."""
    return _table_decoder.decode(data)
