"""What a message carries (body, properties, headers, origin) as plain values."""

import base64
from typing import Any, Final

import msgspec

from streaming.queries.duckdb_tables import Row, iso

ENCODED: Final = """
    base64(body) AS body, list_transform(kafka_headers, lambda one:
        {'key': one.key, 'value': base64(one.value)}) AS kafka_headers
"""
"""What to select in place of the columns that hold bytes: `Tables.rows` cannot give those."""


def plain_attributes(row: Row) -> Row:
    """The attributes of a row that was selected with `ENCODED`, as plain values.

    Properties that a message does not have are left out; headers, the body and the values of Kafka
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
    """A body from the base64 in which `Tables.rows` has it."""
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
    """A column that holds JSON, read; None where there is none."""
    return None if text is None else msgspec.json.decode(text)


def present(struct: dict[str, Any] | None) -> dict[str, Any]:
    """The members of a struct that are there."""
    return {name: value for name, value in (struct or {}).items() if value is not None}
