"""The copies that are in queues at an instant, with what the broker knows of each.

resident copies  +  the message as published, or the envelope that a death stored  -->  its envelope
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from streaming.broker.message import (
    Envelope,
    Message,
    Publication,
    publication_of,
)
from streaming.broker.shard import HeldDeath
from streaming.broker.state.pages import decode_envelope
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.resident import resident_copies
from topology.values import table_from_json

Headers = dict[str, Any] | None


class Resident(msgspec.Struct, frozen=True):
    """A copy in a queue.

    Attributes:
        copy_id: the recorded copy.
        headers: the headers of its message as published.
        since_ms: when it entered the queue, epoch milliseconds.
        returns: how often it was requeued.
        held: what at-least-once dead-lettering holds; None: it is ready or unacked.
        publication: what was published, of a copy that no death made.
        envelope: of one that a death made.
    """

    copy_id: int
    queue: str
    is_unacked: bool
    since_ms: int
    returns: int
    held: HeldDeath | None
    message: Message
    headers: Headers
    publication: Publication | None
    envelope: Envelope | None


_QUERY: Final = """
    SELECT copy.queue, copy.copy_id, copy.state, copy.exchange, copy.routing_key, copy.body_bytes,
           epoch_ms(copy.enqueued_at) AS since_ms, copy.parent_copy_id, copy.returns, copy.reason,
           epoch_us(copy.held_at) AS held_us, copy.accepted, copy.cause,
           copy.message_id.topic_number, copy.message_id."partition", copy.message_id."offset",
           message.exchange AS first_exchange, message.routing_key AS first_key, message.headers,
           message.properties.expiration, message.properties.priority,
           base64(copy.envelope) AS envelope
    FROM ({contents}) AS copy
    LEFT JOIN resident_messages AS message ON message.topic_number = copy.message_id.topic_number
        AND message."partition" = copy.message_id."partition"
        AND message."offset" = copy.message_id."offset"
    WHERE copy.vhost = ? AND copy.lane = ?
    ORDER BY copy.queue, copy."position", copy.copy_id
"""


def residents_of_lane(tables: Tables, vhost: str, lane: int) -> Iterator[Resident]:
    """Yield the copies of a lane at the cut of the tables, by queue, the head first."""
    contents = resident_copies(tables)
    columns = ["topic_number", "partition", "offset", "exchange", "routing_key"]
    columns += ["headers", "properties"]
    tables.view("messages", columns=columns, view="resident_messages")
    for row in tables.rows(_QUERY.format(contents=contents), [vhost, lane]):
        headers = _headers(row["headers"])
        publication = envelope = None
        if row["envelope"] is not None:
            envelope = decode_envelope(base64.b64decode(row["envelope"]))
        else:
            publication = publication_of(
                row["first_exchange"] or "",
                row["first_key"] or "",
                {"expiration": row["expiration"], "priority": row["priority"]},
                headers,
            )
        place = (row["topic_number"], row["partition"], row["offset"])
        yield Resident(
            row["copy_id"],
            row["queue"],
            row["state"] == "unacked",
            row["since_ms"] or 0,
            row["returns"] or 0,
            _held(row) if row["state"] == "held" else None,
            Message(*place, 0, 0, row["body_bytes"] or 0),
            headers,
            publication,
            envelope,
        )


def _held(row: Row) -> HeldDeath:
    second = (row["held_us"] or 0) // 1_000_000
    return HeldDeath(row["reason"] or "", second, tuple(row["accepted"] or ()), row["cause"])


def _headers(text: str | None) -> Headers:
    return None if text is None else table_from_json(msgspec.json.decode(text))
