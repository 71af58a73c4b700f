"""The copies that have not ended, as the broker knows them.

rows of copies at the cut  +  the message as published, or the envelope of a death  -->  Copy
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from streaming.broker.envelopes import published_envelope
from streaming.broker.events import Actor
from streaming.broker.message import (
    NEVER,
    NO_COPY,
    NO_FILE,
    Copy,
    Envelope,
    Message,
    publication_of,
)
from streaming.broker.reject_reasons import with_cause
from streaming.broker.state.pages import decode_envelope
from streaming.broker.state.schema import Held
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.duckdb_tables import Tables
from topology.errors import DlxError
from topology.values import Compat, table_from_json

RESIDENT: Final = "resident"
"""The temporary table of the copies that were read last."""

_COPIES: Final = f"""
    SELECT vhost, lane, queue, state, copy_id, parent_copy_id, message_id.topic_number,
           message_id."partition", message_id."offset", body_bytes, "position",
           epoch_us(expires_at), returns, "user", channel, reason, epoch_us(held_at), envelope,
           delivered_seq, epoch_us(delivered_at), accepted, cause, epoch_ms(enqueued_at)
    FROM {RESIDENT} ORDER BY vhost, lane, queue, "position", copy_id
"""
_PUBLISHED: Final = f"""
    SELECT topic_number, "partition", "offset", exchange, routing_key, properties.expiration,
           properties.priority, headers
    FROM published WHERE (topic_number, "partition", "offset") IN (
        SELECT (message_id.topic_number, message_id."partition", message_id."offset")
        FROM {RESIDENT} WHERE parent_copy_id IS NULL OR ?)
"""

ShardName = tuple[str, int]
"""The vhost and lane of a shard."""


class LostStateError(DlxError):
    """The tables do not know enough to tell the state."""

    help_code = "rebuild"


class Delivered(NamedTuple):
    """Who holds an unacked copy, since when; `seq` tells the order of deliveries."""

    actor: Actor
    at_ms: int
    seq: int


class KnownCopy(NamedTuple):
    """A copy that has not ended: ready, unless one of the last two says otherwise.

    Attributes:
        since_ms: when it entered its queue, epoch milliseconds.
        delivered: it is unacked.
        held: at-least-once dead-lettering holds it.
        held_seq: tells the order in which copies were held; 0 if an old snapshot does not.
    """

    place: ShardName
    queue: str
    copy: Copy
    since_ms: int
    delivered: Delivered | None = None
    held: Held | None = None
    held_seq: int = 0


class _Row(NamedTuple):
    vhost: str
    lane: int
    queue: str
    state: str
    copy_id: int
    parent_copy_id: int | None
    topic_number: int
    partition: int
    offset: int
    body_bytes: int
    position: int
    expires_us: int | None
    returns: int
    user: str | None
    channel: str | None
    reason: str | None
    held_us: int | None
    envelope: bytes | None
    delivered_seq: int | None
    delivered_us: int | None
    accepted: list[str] | None
    cause: str | None
    since_ms: int | None

    @property
    def key(self) -> tuple[int, int, int]:
        """The message."""
        return (self.topic_number, self.partition, self.offset)


class Copies:
    """Reads the copies at the cut of the tables, by shard and queue, the head first.

    Args:
        where: a condition for rows of copies, in SQL; the others are not read.
        headers: whether `headers` is wanted of every copy, not only of those that a publish made.

    Raises:
        LostStateError: a copy cannot be told as it was.
        QueryError: a table is missing, or the tables do not know the cut any more.
    """

    def __init__(
        self, tables: Tables, compat: Compat, *, where: str = "true", headers: bool = False
    ) -> None:
        self._tables = tables
        self._compat = compat
        self._known: dict[tuple[Any, ...], Envelope] = {}
        contents = prepare_contents(tables, whole=True)
        tables.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {RESIDENT} AS FROM ({contents}) WHERE {where}"
        )
        columns = ["topic_number", "partition", "offset", "exchange", "routing_key", "properties"]
        tables.view("messages", columns=[*columns, "headers"], view="published")
        found = tables.values(_PUBLISHED, [headers])
        self._published = {tuple(row[:3]): tuple(row[3:]) for row in found}

    def __iter__(self) -> Iterator[KnownCopy]:
        """Yield the copies."""
        for values in self._tables.values(_COPIES):
            row = _Row(*values)
            copy = Copy(
                row.copy_id,
                Message(*row.key, NO_FILE, 0, row.body_bytes),
                self._envelope(row),
                row.position,
                NEVER if row.expires_us is None else row.expires_us // 1000,
                NO_COPY if row.parent_copy_id is None else row.parent_copy_id,
                row.returns,
            )
            delivered = held = None
            if row.state == "unacked":
                actor = Actor(row.user, row.channel or "")
                at_ms = (row.delivered_us or 0) // 1000
                delivered = Delivered(actor, at_ms, row.delivered_seq or copy.copy_id)
            elif row.state == "held":
                if row.cause is not None:
                    copy.envelope = with_cause(copy.envelope, row.cause)
                died_s, accepted = (row.held_us or 0) // 1_000_000, tuple(row.accepted or ())
                held = Held(copy, row.reason or "", died_s, accepted, held=True, cause=row.cause)
            place = (row.vhost, row.lane)
            seq = row.delivered_seq or 0
            yield KnownCopy(place, row.queue, copy, row.since_ms or 0, delivered, held, seq)

    def headers(self, message: Message) -> dict[str, Any] | None:
        """The headers of a message as it was published."""
        key = (message.topic_number, message.partition, message.offset)
        sent = self._published.get(key)
        return None if sent is None else published_headers(sent[-1])

    def _envelope(self, row: _Row) -> Envelope:
        if row.parent_copy_id is not None:
            assert row.envelope is not None, f"copy {row.copy_id} of a death has no envelope"
            return decode_envelope(row.envelope)
        sent = self._published.get(row.key)
        if sent is None:
            raise LostStateError(
                f"message {'/'.join(map(str, row.key))}, which is in queue {row.queue!r} of vhost "
                f"{row.vhost!r}, is missing from the table messages: restore it from a backup"
            )
        envelope = self._known.get(sent)
        if envelope is None:
            exchange, routing_key, expiration, priority, headers = sent
            properties = {"expiration": expiration, "priority": priority}
            publication = publication_of(
                exchange or "", routing_key or "", properties, published_headers(headers)
            )
            envelope = self._known[sent] = published_envelope(publication, self._compat)
        return envelope


def published_headers(text: str | None) -> dict[str, Any] | None:
    """The column `headers` of `messages` as an AMQP table."""
    return None if text is None else table_from_json(msgspec.json.decode(text))
