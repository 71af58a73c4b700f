"""Pages of copies: lists of records that hold copies, each envelope once.

A copy refers to its envelope by its index in a table in front of the copies.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from streaming.broker.message import X_DEATH, Copy, Death, Envelope
from streaming.broker.state.encoding import decode_table, encode_table, pack, unpack
from streaming.broker.state.page_records import DeathRecord, EnvelopeRecord, PageRecord

_encoder = msgspec.msgpack.Encoder()
_encoder_of_one = msgspec.msgpack.Encoder(enc_hook=lambda _envelope: 0)
MAX_KNOWN = 50_000
"""Envelopes that a worker remembers by their encoded form."""

MAX_KNOWN_BYTES = 1024
"""Larger ones, as with hundreds of CC keys, are not remembered: they would fill the memory."""

_known: dict[bytes, Envelope] = {}
_NOTHING = msgspec.Raw(encode_table(None))


def _raw(table: dict[str, Any] | None) -> msgspec.Raw:
    return _NOTHING if table is None else msgspec.Raw(encode_table(table))


def _encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope once, however many pages hold copies of it."""
    data = envelope.at_rest
    if data is None:
        given = envelope.given_x_death
        record = (  # the fields of `EnvelopeRecord`
            envelope.exchange,
            envelope.routing_keys,
            envelope.bcc,
            envelope.cc,
            envelope.expiration,
            envelope.ttl_ms,
            envelope.priority,
            _death_records(envelope.deaths),
            envelope.first_death,
            envelope.last_death,
            envelope.rerouted,
            _raw(None if given is None else {X_DEATH: given}),
            envelope.dropped,
            _raw(envelope.added),
        )
        data = envelope.at_rest = _encoder.encode(record)
    return data


def _death_records(deaths: tuple[Death, ...]) -> tuple[Death | DeathRecord, ...]:
    """Deaths as they are stored: those without a client's table need no conversion."""
    for death in deaths:
        if death.given is not None:
            return tuple([_death_record(each) for each in deaths])
    return deaths


def _death_record(death: Death) -> Death | DeathRecord:
    if death.given is None:
        return death
    return DeathRecord(**msgspec.structs.asdict(death) | {"given": _raw(death.given)})


_envelope_decoder = msgspec.msgpack.Decoder(EnvelopeRecord)


def shared(envelope: Envelope) -> Envelope:
    """Return an equal envelope that is known already, or this one.

    So messages that are alike share plans with those of earlier batches.
    """
    return _remembered(_encode_envelope(envelope), envelope)


def _remembered(data: bytes, envelope: Envelope) -> Envelope:
    if len(data) > MAX_KNOWN_BYTES:
        return envelope
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    return _known.setdefault(data, envelope)


def _decode_envelope(data: bytes) -> Envelope:
    """Decode an envelope once, however many pages hold copies of it."""
    known = _known.get(data)
    if known is not None:
        return known
    record = _envelope_decoder.decode(data)
    fields = msgspec.structs.asdict(record)
    given = decode_table(record.given_x_death)
    fields["given_x_death"] = given and given[X_DEATH]
    fields["added"] = decode_table(record.added)
    fields["deaths"] = tuple(
        Death(**msgspec.structs.asdict(death) | {"given": decode_table(death.given)})
        for death in record.deaths
    )
    envelope = Envelope(**fields)
    envelope.at_rest = data
    return _remembered(data, envelope)


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope alone, version byte included."""
    return pack(_encode_envelope(envelope))


def decode_envelope(data: bytes) -> Envelope:
    """Decode an envelope that `encode_envelope` returned."""
    return _decode_envelope(unpack(data))


class _Numbers(dict[Envelope, int]):
    """The envelopes of a page by number: equal ones have one, whether or not they are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: dict[bytes, int] = {}

    def __missing__(self, envelope: Envelope) -> int:
        number = self.encoded.setdefault(_encode_envelope(envelope), len(self.encoded))
        self[envelope] = number
        return number


class PageCodec:
    """Encodes and decodes lists of records that hold copies, each envelope once.

    Args:
        item: the record type; anything msgspec can encode that holds `Copy` values.
        envelope: path of the envelope in an item.
    """

    def __init__(self, item: Any, envelope: str = "copy.envelope") -> None:
        self._items: Any = list[item]
        self._envelope_of = attrgetter(envelope)

    def encode(self, items: Iterable[Any]) -> bytes:
        """Encode a page, version byte included.

        Equal copies give equal bytes, whether or not this process shares their envelopes.
        """
        items = list(items)
        if len(items) == 1:  # as in most of very many queues
            body = _encoder_of_one.encode(items)
            envelopes = [msgspec.Raw(_encode_envelope(self._envelope_of(items[0])))]
        else:
            numbers = _Numbers()
            body = msgspec.msgpack.encode(items, enc_hook=numbers.__getitem__)
            envelopes = list(map(msgspec.Raw, numbers.encoded))
        return pack(_encoder.encode((envelopes, msgspec.Raw(body))))  # a `PageRecord`

    def decode(self, data: bytes) -> list[Any]:
        """Decode a page that `encode` returned."""
        page = _page_decoder.decode(unpack(data))
        envelopes = [_decode_envelope(bytes(envelope)) for envelope in page.envelopes]

        def look_up(_type: type, index: int) -> Envelope:
            return envelopes[index]

        items: list[Any] = msgspec.msgpack.decode(page.items, type=self._items, dec_hook=look_up)
        return items


_page_decoder = msgspec.msgpack.Decoder(PageRecord)
COPIES = PageCodec(Copy, "envelope")
"""Pages of copies."""
