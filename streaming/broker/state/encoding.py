"""State as bytes: one version byte, then msgpack.

Every value in a `StateStore` goes through `pack` and `unpack`. A new layout gets the next version
number and an entry in `UPGRADES`; reading applies them one after the other. So state of any earlier
version can be read, and only this file knows about versions.

A page of copies stores each envelope once: a copy refers to it by its index in a table in front of
the copies.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec

from streaming.broker.message import Copy, Death, DeathNote, Envelope
from topology.values import Timestamp

STATE_VERSION = 1

UPGRADES: dict[int, Callable[[bytes], bytes]] = {}
"""Version n -> a function that turns a payload of version n into one of version n + 1."""

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


def unpack(value: bytes) -> bytes:
    """Remove the version byte and upgrade older payloads.

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
    """Encode an AMQP table; types that msgpack lacks become extensions, so that they survive."""
    if table:
        for value in table.values():
            if type(value) not in _PLAIN or (type(value) is int and value not in _INT64):
                return _encoder.encode({name: _to_msgpack(item) for name, item in table.items()})
    return _encoder.encode(table)


def decode_table(data: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """Decode a table that `encode_table` returned."""
    return _table_decoder.decode(data)


class _DeathRecord(msgspec.Struct, array_like=True):
    count: int
    reason: str
    queue: str
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    given: msgspec.Raw


class _EnvelopeRecord(msgspec.Struct, array_like=True):
    """An envelope whose tables are encoded apart, so that their types survive."""

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
    kafka_headers: msgspec.Raw


def _raw(table: dict[str, Any] | None) -> msgspec.Raw:
    return msgspec.Raw(encode_table(table))


def _encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope once, however many pages hold copies of it."""
    data = envelope.at_rest
    if data is None:
        deaths = tuple(
            _DeathRecord(**msgspec.structs.asdict(death) | {"given": _raw(death.given)})
            for death in envelope.deaths
        )
        record = _EnvelopeRecord(
            envelope.exchange,
            envelope.routing_keys,
            envelope.bcc,
            _raw(envelope.properties),
            _raw(envelope.headers),
            envelope.expiration,
            envelope.ttl_ms,
            envelope.priority,
            deaths,
            envelope.first_death,
            envelope.last_death,
            envelope.rerouted,
            _raw(envelope.kafka_headers),
        )
        data = envelope.at_rest = _encoder.encode(record)
    return data


_envelope_decoder = msgspec.msgpack.Decoder(_EnvelopeRecord)


def _decode_envelope(data: msgspec.Raw) -> Envelope:
    record = _envelope_decoder.decode(data)
    fields = msgspec.structs.asdict(record)
    for name in ("properties", "headers", "kafka_headers"):
        fields[name] = decode_table(fields[name])
    fields["deaths"] = tuple(
        Death(**msgspec.structs.asdict(death) | {"given": decode_table(death.given)})
        for death in record.deaths
    )
    return Envelope(**fields)


class _Page(msgspec.Struct, array_like=True):
    envelopes: list[msgspec.Raw]
    items: msgspec.Raw


class PageCodec:
    """Encodes and decodes lists of records that hold copies, each envelope once.

    Args:
        item: the record type; anything msgspec can encode that holds `Copy` values.
    """

    def __init__(self, item: Any) -> None:
        self._items: Any = list[item]

    def encode(self, items: Iterable[Any]) -> bytes:
        """Encode a page, version byte included."""
        indexes: dict[Envelope, int] = {}

        def intern(envelope: Envelope) -> int:
            return indexes.setdefault(envelope, len(indexes))

        body = msgspec.msgpack.encode(list(items), enc_hook=intern)
        envelopes = [msgspec.Raw(_encode_envelope(envelope)) for envelope in indexes]
        return pack(_encoder.encode(_Page(envelopes, msgspec.Raw(body))))

    def decode(self, data: bytes) -> list[Any]:
        """Decode a page that `encode` returned."""
        page = _page_decoder.decode(unpack(data))
        envelopes = [_decode_envelope(envelope) for envelope in page.envelopes]

        def look_up(_type: type, index: int) -> Envelope:
            return envelopes[index]

        items: list[Any] = msgspec.msgpack.decode(page.items, type=self._items, dec_hook=look_up)
        return items


_page_decoder = msgspec.msgpack.Decoder(_Page)
COPIES = PageCodec(Copy)
"""Pages of copies."""
