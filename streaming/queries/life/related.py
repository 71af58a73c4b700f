"""The messages that belong to one message: the same order, the same correlation, an answer to it.

a message --> its values at the paths of `[tables] search`  -->  the index  -->  any message
          --> its message_id and correlation_id             -->  messages of the batches of its life

A value that many messages have, such as a tenant, relates nothing: it is only named.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from streaming.protocol.search_keys import SearchPaths
from streaming.queries.duckdb_tables import Row, Tables, iso, text
from streaming.queries.life.find import FoundMessage, readable
from streaming.queries.life.publishes import messages_of, publishes
from streaming.queries.message_attributes import MessageId, decoded
from streaming.queries.message_history import MessageHistory
from streaming.queries.search_index import IndexedMessage, indexed_paths, messages_with

MAX_RELATED: Final = 20
"""A value that more messages have is only named."""

NEAR_BATCHES: Final = 2
"""What a consumer publishes for a message arrives so many batches around the message's events."""

CORRELATION: Final = "property:correlation_id"


class RelatedMessage(msgspec.Struct, frozen=True):
    """A message that belongs to another one.

    Attributes:
        by: the path where the value is, as of `[tables] search`.
        user, exchange, routing_key: of its publish; None: it is not known.
        found: its latest death, if it died.
    """

    message_id: str
    by: str
    value: str
    user: str | None
    exchange: str | None
    routing_key: str | None
    found: FoundMessage


class Related(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        messages: in the order of their publishes in each topic.
        common: values that more than `MAX_RELATED` messages have, by path.
    """

    messages: list[RelatedMessage]
    common: dict[str, str]


def related_to(tables: Tables, history: MessageHistory) -> Related:
    """Find the messages that share a value with a message, within what the user may read."""
    row = history.message
    key = MessageId.parse(history.message_id)
    if row is None or key is None or history.hidden:
        return Related([], {})
    paths = [one.path for one in indexed_paths(tables)]
    hits: dict[MessageId, tuple[IndexedMessage, str]] = {}
    common: dict[str, str] = {}
    for path, value in dict(_values(row, paths)).items():
        same = messages_with(tables, value, MAX_RELATED + 2, vhost=row["vhost"])
        others = [one for one in same if one.message_id != key]
        if len(others) > MAX_RELATED:
            common[path] = value
            continue
        for one in others:
            hits.setdefault(one.message_id, (one, value))
    if CORRELATION not in paths:
        for one, value in _correlated(tables, history, row):
            if one.message_id != key:
                hits.setdefault(one.message_id, (one, value))
    chosen = dict(sorted(hits.items())[: 2 * MAX_RELATED])
    published = publishes(tables, [one for one, _value in chosen.values()])
    found = []
    for place in readable(tables, [one for one, _value in chosen.values()]):
        name = MessageId.parse(place.message_id)
        assert name is not None, "it was found by its id"
        publish = published.get(name, {})
        found.append(
            RelatedMessage(
                place.message_id,
                place.place,
                chosen[name][1],
                publish.get("user"),
                publish.get("exchange"),
                publish.get("routing_key"),
                msgspec.structs.replace(place, published_at=iso(publish.get("published_at"))),
            )
        )
    return Related(found, common)


def _values(row: Row, paths: list[str]) -> Iterator[tuple[str, str]]:
    """The values of a message at the indexed paths."""
    properties = row.get("properties") or {}
    headers = msgspec.json.encode(row.get("headers") or {})
    yield from SearchPaths(paths).values(bytes_of(row.get("body")), headers, properties)


def bytes_of(body: Any) -> bytes | None:
    """The bytes of a body as typed JSON."""
    if body is None:
        return None
    return decoded(body["$bytes"]) if isinstance(body, dict) else str(body).encode()


def _correlated(
    tables: Tables, history: MessageHistory, row: Row
) -> Iterator[tuple[IndexedMessage, str]]:
    """The messages with its correlation id, and the answers to it, in the batches of its life."""
    properties = row.get("properties") or {}
    name, correlation = properties.get("message_id"), properties.get("correlation_id")
    ids = [one for one in (name, correlation) if isinstance(one, str) and one]
    if not ids:
        return
    near = {
        batch + step
        for batch in (row["batch_id"], *(one["batch_id"] for one in history.events))
        for step in range(-NEAR_BATCHES, NEAR_BATCHES + 1)
    }
    same = f"properties.correlation_id IN ({', '.join(map(text, ids))})"
    if correlation:
        same = f"({same} OR properties.message_id = {text(str(correlation))})"
    condition = f"vhost = {text(row['vhost'])} AND {same}"
    for found in messages_of(tables, sorted(near), condition, MAX_RELATED + 1):
        given = found["properties"]
        is_answer = given["correlation_id"] in ids
        path = CORRELATION if is_answer else "property:message_id"
        value = given["correlation_id"] if is_answer else given["message_id"]
        yield IndexedMessage(_id(found), path, found["vhost"], found["batch_id"]), value


def _id(row: Row) -> MessageId:
    return MessageId(row["topic_number"], row["partition"], row["offset"])
