"""Reads pages of copies that earlier versions of the program wrote.

Version 1 held the properties and headers of a message in its envelope. They are in its row of
`messages` too, so only what the broker looks at is taken over.
"""

from typing import Any, Final

import msgspec

from streaming.broker.message import BROKER_HEADERS, DeathNote
from streaming.broker.state.encoding import Upgrades, decode_table, encode_table
from streaming.broker.state.page_records import DeathRecord, EnvelopeRecord, PageRecord


class _Envelope1(msgspec.Struct, array_like=True):
    exchange: str
    routing_keys: tuple[str, ...]
    bcc: tuple[str, ...]
    properties: msgspec.Raw
    headers: msgspec.Raw
    expiration: str | None
    ttl_ms: int | None
    priority: int
    deaths: tuple[DeathRecord, ...]
    first_death: DeathNote | None
    last_death: DeathNote | None
    rerouted: bool
    kafka_headers: msgspec.Raw


_envelope_1 = msgspec.msgpack.Decoder(_Envelope1)
_page = msgspec.msgpack.Decoder(PageRecord)
_encoder = msgspec.msgpack.Encoder()


def _without_headers(payload: bytes) -> bytes:
    """Turn a page of version 1 into one of version 2."""
    page = _page.decode(payload)
    envelopes = [msgspec.Raw(_encoder.encode(_envelope_2(each))) for each in page.envelopes]
    return _encoder.encode(PageRecord(envelopes, page.items))


def _envelope_2(data: msgspec.Raw) -> EnvelopeRecord:
    """Convert an envelope.

    Which of BROKER_HEADERS was published, and dropped since, is not known any more: whichever the
    envelope lacks must not be delivered.
    """
    old = _envelope_1.decode(data)
    headers = decode_table(old.headers) or {}
    given = None
    if "x-death" in headers and not old.deaths:
        given = {"x-death": [one for one in _list(headers["x-death"]) if isinstance(one, dict)]}
    cc = None
    if "CC" in headers:
        cc = tuple(key for key in _list(headers["CC"]) if isinstance(key, str))
    return EnvelopeRecord(
        old.exchange,
        old.routing_keys,
        old.bcc,
        cc,
        old.expiration,
        old.ttl_ms,
        old.priority,
        old.deaths,
        old.first_death,
        old.last_death,
        old.rerouted,
        msgspec.Raw(encode_table(given)),
        tuple(name for name in BROKER_HEADERS if name not in headers),
        msgspec.Raw(encode_table(None)),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


PAGE_UPGRADES: Final[Upgrades] = {1: _without_headers}
