"""The layout of a page of copies at rest."""

import msgspec

from streaming.broker.message import DeathNote


class DeathRecord(msgspec.Struct, array_like=True):
    """A death; `given` is a table."""

    count: int
    reason: str
    queue: str
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None
    given: msgspec.Raw


class EnvelopeRecord(msgspec.Struct, array_like=True):
    """An envelope whose tables are encoded apart, so that their types survive."""

    exchange: str
    routing_keys: tuple[str, ...]
    bcc: tuple[str, ...]
    cc: tuple[str, ...] | None
    expiration: str | None
    ttl_ms: int | None
    priority: int
    deaths: tuple[DeathRecord, ...]
    first_death: DeathNote | None
    last_death: DeathNote | None
    rerouted: bool
    given_x_death: msgspec.Raw
    dropped: tuple[str, ...]
    added: msgspec.Raw


class PageRecord(msgspec.Struct, array_like=True):
    """A page: its envelopes, and the encoded list of its items."""

    envelopes: list[msgspec.Raw]
    items: msgspec.Raw
