"""The history of one message: where it came from, what happened to it, where it is now."""

from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import NAME as DEAD_LETTERS
from streaming.queries.dead_letters.letters import plain_row
from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso
from streaming.queries.message_attributes import (
    ENCODED,
    MessageId,
    as_json,
    decoded,
    document,
    plain_attributes,
)

_MAX_AMBIGUOUS: Final = 10
_ABOUT: Final = (
    'message_id.topic_number = ? AND message_id."partition" = ? AND message_id."offset" = ?'
)
"""A condition for the rows that are about one message."""


class MessageHistory(msgspec.Struct, frozen=True):
    """Everything known about a message; rows as in the tables, with plain values.

    Attributes:
        message: its row of `messages`; None if it is missing.
        deaths: its rows of `dead_letters`, by the seq of the event.
        now: the state of each remaining copy: copy_id -> ready, unacked or held.
    """

    message_id: str
    message: Row | None
    events: list[Row]
    deaths: dict[int, Row]
    now: dict[int, str]


def history_of(tables: Tables, name: str) -> MessageHistory:
    """Look up the history of a message.

    Args:
        name: `topic number/partition/offset`, or the AMQP property message_id.

    Raises:
        QueryError: no message or several messages have that name, or a table is missing.
    """
    tables.table("events")
    key = MessageId.parse(name)
    if key is None:
        key = _by_property(tables, name)
    message = _message(tables, key)
    least = -1 if message is None else message["batch_id"] - 1
    events = _events(tables, key, least)
    if message is None and not events:
        raise QueryError(
            f"there is no message {name!r}: partition {key.partition} of topic number "
            f"{key.topic_number} has none at offset {key.offset}; `dlx dead-letters list` shows ids"
        )
    return MessageHistory(str(key), message, events, _deaths(tables, key, least), _now(events))


def _by_property(tables: Tables, name: str) -> MessageId:
    tables.view("messages", columns=["topic_number", "partition", "offset", "properties"])
    found = tables.values(
        'SELECT topic_number, "partition", "offset" FROM messages '
        f"WHERE properties.message_id = ? ORDER BY ALL LIMIT {_MAX_AMBIGUOUS + 1}",
        [name],
    )
    keys = [MessageId(*row) for row in found]
    match keys:
        case [key]:
            return key
        case []:
            raise QueryError(
                f"there is no message {name!r}: no message has that message_id, and it is not an "
                "id such as 1/0/42 (`dlx dead-letters list` shows ids)"
            )
        case _:
            more = ", ..." if len(keys) > _MAX_AMBIGUOUS else ""
            names = ", ".join(str(key) for key in keys[:_MAX_AMBIGUOUS])
            raise QueryError(f"several messages have message_id {name!r}: {names}{more}")


def _message(tables: Tables, key: MessageId) -> Row | None:
    tables.view("messages")
    found = tables.rows(
        f"""
        SELECT * REPLACE (base64(record_key) AS record_key, {ENCODED}) FROM messages
        WHERE topic_number = ? AND "partition" = ? AND "offset" = ?
        """,
        key,
    )
    if not found:
        return None
    row = found[0]
    record_key = as_json(decoded(row["record_key"]))
    return {**row, "record_key": record_key, **plain_attributes(row)}


def _events(tables: Tables, key: MessageId, least: int) -> list[Row]:
    tables.view("events", files=tables.files("events", {"batch_id": least}))
    found = tables.rows(
        f"""
        SELECT batch_id, vhost, lane, seq, "at", kind, copy_id, parent_copy_id, queue, reason,
               number, "position", expires_at, exchange, routing_key, "user", channel, detail
        FROM events WHERE {_ABOUT} ORDER BY vhost, lane, seq
        """,
        key,
    )
    for row in found:
        row["at"], row["expires_at"] = iso(row["at"]), iso(row["expires_at"])
        row["detail"] = document(row["detail"])
    return found


def _deaths(tables: Tables, key: MessageId, least: int) -> dict[int, Row]:
    tables.view(DEAD_LETTERS, files=tables.files(DEAD_LETTERS, {"batch_id": least}))
    sql = f"SELECT * REPLACE ({ENCODED}) FROM {DEAD_LETTERS} WHERE {_ABOUT}"
    found = tables.rows(sql, key)
    return {row["seq"]: plain_row(row) for row in found}


def _now(events: list[Row]) -> dict[int, str]:
    states = {"enqueued": "ready", "requeued": "ready", "delivered": "unacked", "held": "held"}
    now: dict[int, str] = {}
    for event in events:
        copy_id = event["copy_id"]
        if copy_id is None:
            continue
        state = states.get(event["kind"])
        if state is None:
            now.pop(copy_id, None)
        else:
            now[copy_id] = state
    return now
