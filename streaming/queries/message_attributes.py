"""A message as plain values: its id, body, properties, headers and origin."""

import base64
import re
from typing import Any, Final, NamedTuple, Self

import msgspec

from streaming.queries.duckdb_tables import Row, iso

ENCODED: Final = """
    base64(body) AS body, list_transform(kafka_headers, lambda one:
        {'key': one.key, 'value': base64(one.value)}) AS kafka_headers
"""
"""Selects encoded columns in place of those that hold bytes, which `Tables.rows` cannot return."""

RECORD: Final = re.compile(r"(?P<topic>.+)/(?P<partition>[0-9]{1,9})/(?P<offset>[0-9]{1,18})")
"""A place in Kafka, such as `orders/0/42`; the topic is a name, or its number in the tables."""

_ID_TEXT: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})/([0-9]{1,18})")


class MessageId(NamedTuple):
    """The key of a message in `messages`; commands print and take it as `1/0/42`."""

    topic_number: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic_number}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The id that a text stands for, or None."""
        found = _ID_TEXT.fullmatch(text)
        return None if found is None else cls(*(int(part) for part in found.groups()))

    @classmethod
    def of(cls, value: dict[str, Any] | None) -> Self | None:
        """The id in a `message_id` struct."""
        return None if value is None else cls(**value)


def plain_attributes(row: Row) -> Row:
    """The attributes of a row that was selected with `ENCODED`.

    Properties that a message does not have are omitted. Headers, the body and the values of Kafka
    headers are typed JSON.
    """
    origin = present(row["origin"])
    if "timestamp" in origin:
        origin["timestamp"] = iso(origin["timestamp"])
    return {
        "origin": origin,
        "properties": present(row["properties"]),
        "headers": document(row["headers"]),
        "kafka_headers": [
            {"key": one["key"], "value": as_json(decoded(one["value"]))}
            for one in row["kafka_headers"] or []
        ],
        "body": as_json(decoded(row["body"])),
    }


def decoded(body: str | None) -> bytes | None:
    """The bytes of a body that `Tables.rows` returned as base64."""
    return None if body is None else base64.b64decode(body)


def as_json(body: bytes | None) -> object:
    """A body as typed JSON: text if it is UTF-8, else `{"$bytes": base64}`."""
    if body is None:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"$bytes": base64.b64encode(body).decode()}


def document(text: str | None) -> Any:
    """The content of a JSON column; None if it is null."""
    return None if text is None else msgspec.json.decode(text)


def present(struct: dict[str, Any] | None) -> dict[str, Any]:
    """The members of a struct that are not null."""
    return {name: value for name, value in (struct or {}).items() if value is not None}
