"""State as bytes: one version byte, then msgpack.

Every value in a `StateStore` goes through `pack` and `unpack`. A newer layout gets the next
version number and an entry in `UPGRADES`; reading applies them one after the other, so that state
written by any earlier version is read, and nothing but this file knows.

Pages of copies write each envelope once: inside a copy the envelope is its index in a table that
stands before the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from streaming.broker.message import Copy, Death, DeathNote, Envelope
from topology.values import Timestamp

STATE_VERSION = 1

UPGRADES: dict[int, Callable[[bytes], bytes]] = {}
"""Version n -> a function from a payload of version n to one of version n + 1."""

T = TypeVar("T")

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
            f"the state has version {self.version}, this program knows versions up to "
            f"{STATE_VERSION}: "
            "run the version that wrote it, or a newer one"
        )


def pack(payload: bytes) -> bytes:
    """Put the version byte in front."""
    return bytes((STATE_VERSION,)) + payload


def unpack(value: bytes) -> bytes:
    """Take the version byte off, upgrading older payloads.

    Raises:
        StateVersionError: the value was written by a newer program.
    """
    version = value[0]
    if version > STATE_VERSION:
        raise StateVersionError(version)
    payload = value[1:]
    for step in range(version, STATE_VERSION):
        payload = UPGRADES[step](payload)
    return payload


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
    """An AMQP table as msgpack; what msgpack lacks becomes an extension, so types survive."""
    if table:
        for value in table.values():
            if type(value) not in _PLAIN or (type(value) is int and value not in _INT64):
                return _encoder.encode({name: _to_msgpack(item) for name, item in table.items()})
    return _encoder.encode(table)


def decode_table(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """The inverse of `encode_table`."""
    return _table_decoder.decode(data)


class _EnvelopeRecord(msgspec.Struct, array_like=True):
    exchange: str
    routing_keys: tuple[str, ...]
    bcc: tuple[str, ...]
    properties: msgspec.Raw
    headers: msgspec.Raw
    expiration: str | None
    ttl_ms: int | None
    priority: int
    deaths: tuple[_DeathRecord, ...]
    first_death: DeathNote | None
    last_death: DeathNote | None
    rerouted: bool
    foreign: msgspec.Raw


class _DeathRecord(msgspec.Struct, array_like=True):
    count: int
    reason: str
    queue: str
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    given: msgspec.Raw


def _at_rest(envelope: Envelope) -> bytes:
    """An envelope's bytes; alike copies of many pages share it, so they are made once."""
    data = envelope.at_rest
    if data is None:
        data = envelope.at_rest = _encoder.encode(_record(envelope))
    return data


def _record(envelope: Envelope) -> _EnvelopeRecord:
    return _EnvelopeRecord(
        envelope.exchange,
        envelope.routing_keys,
        envelope.bcc,
        msgspec.Raw(encode_table(envelope.properties)),
        msgspec.Raw(encode_table(envelope.headers)),
        envelope.expiration,
        envelope.ttl_ms,
        envelope.priority,
        tuple(
            _DeathRecord(
                death.count,
                death.reason,
                death.queue,
                death.time_s,
                death.exchange,
                death.routing_keys,
                death.original_expiration,
                msgspec.Raw(encode_table(death.given)),
            )
            for death in envelope.deaths
        ),
        envelope.first_death,
        envelope.last_death,
        envelope.rerouted,
        msgspec.Raw(encode_table(envelope.foreign)),
    )


def _envelope(record: _EnvelopeRecord) -> Envelope:
    return Envelope(
        record.exchange,
        record.routing_keys,
        record.bcc,
        decode_table(record.properties),
        decode_table(record.headers),
        record.expiration,
        record.ttl_ms,
        record.priority,
        tuple(
            Death(
                death.count,
                death.reason,
                death.queue,
                death.time_s,
                death.exchange,
                death.routing_keys,
                death.original_expiration,
                decode_table(death.given),
            )
            for death in record.deaths
        ),
        record.first_death,
        record.last_death,
        record.rerouted,
        decode_table(record.foreign),
    )


_envelope_decoder = msgspec.msgpack.Decoder(_EnvelopeRecord)


def _from_rest(data: msgspec.Raw) -> Envelope:
    return _envelope(_envelope_decoder.decode(data))


class _Page(msgspec.Struct, array_like=True):
    envelopes: list[msgspec.Raw]
    items: msgspec.Raw


class PageCodec:
    """Writes and reads lists of records that hold copies, envelopes interned.

    Args:
        item: the record type; anything msgspec can write that holds `Copy` values.
    """

    def __init__(self, item: Any) -> None:
        self._table: list[Envelope] = []
        self._index: dict[Envelope, int] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._intern)
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            list[item], dec_hook=self._lookup
        )
        self._page_decoder = msgspec.msgpack.Decoder(_Page)

    def _intern(self, envelope: Envelope) -> int:
        index = self._index.get(envelope)
        if index is None:
            index = self._index[envelope] = len(self._table)
            self._table.append(envelope)
        return index

    def _lookup(self, _type: type, index: int) -> Envelope:
        return self._table[index]

    def encode(self, items: Iterable[Any]) -> bytes:
        """A page as bytes, version byte included."""
        self._table, self._index = [], {}
        body = self._encoder.encode(list(items))
        envelopes = [msgspec.Raw(_at_rest(envelope)) for envelope in self._table]
        page = _Page(envelopes, msgspec.Raw(body))
        self._table, self._index = [], {}
        return pack(_encoder.encode(page))

    def decode(self, data: bytes) -> list[Any]:
        """The inverse of `encode`."""
        page = self._page_decoder.decode(unpack(data))
        self._table = [_from_rest(data) for data in page.envelopes]
        items: list[Any] = self._decoder.decode(page.items)
        self._table = []
        return items


COPIES = PageCodec(Copy)
"""Pages of copies."""
