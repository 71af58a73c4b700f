"""Query the quarantine: records that could not be understood."""

from datetime import datetime
from typing import Final

from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso, text
from streaming.queries.message_attributes import MessageId, as_json, decoded, present

NAME: Final = "quarantine"
_ENCODED: Final = """
    base64(record_key) AS record_key, base64(record_value) AS record_value,
    list_transform(kafka_headers, lambda one:
        {'key': one.key, 'value': base64(one.value)}) AS kafka_headers
"""


def list_quarantine(
    tables: Tables,
    *,
    cause: str | None = None,
    topic: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = 50,
    first: int = 0,
) -> tuple[list[Row], int]:
    """List quarantined records, the latest first; and say how many there are in all.

    Args:
        since, until: by the timestamp of the Kafka record.
        limit: how many to list; None: all.
        first: how many precede them.
    """
    tables.view(NAME)
    conditions, parameters = ["true"], []
    for column, value in (("cause", cause), ("origin.topic", topic)):
        if value is not None:
            conditions.append(f"{column} = ?")
            parameters.append(value)
    for operator, instant in ((">=", since), ("<", until)):
        if instant is not None:
            moment = f"CAST({text(instant.isoformat())} AS TIMESTAMPTZ)"
            conditions.append(f'origin."timestamp" {operator} {moment}')
    where = " AND ".join(conditions)
    limited = "" if limit is None else f"LIMIT {limit} OFFSET {first}"
    found = tables.rows(
        f"""
        SELECT * REPLACE ({_ENCODED}) FROM {NAME} WHERE {where}
        ORDER BY batch_id DESC, topic_number, "partition", "offset" DESC {limited}
        """,
        parameters,
    )
    [(total,)] = tables.values(f"SELECT count(*) FROM {NAME} WHERE {where}", parameters)
    return [_plain(row) for row in found], total


def quarantined(tables: Tables, name: str) -> Row:
    """The quarantined record of an id.

    Raises:
        QueryError: the text is not an id, or no record of it is in quarantine.
    """
    key = MessageId.parse(name)
    hint = "`dlx quarantine list` shows ids such as 1/0/42"
    if key is None:
        raise QueryError(f"{name!r} is not the id of a record: {hint}")
    tables.view(NAME)
    found = tables.rows(
        f"""
        SELECT * REPLACE ({_ENCODED}) FROM {NAME}
        WHERE topic_number = ? AND "partition" = ? AND "offset" = ?
        """,
        key,
    )
    if not found:
        raise QueryError(f"no record {name!r} is in quarantine: {hint}")
    return _plain(found[0])


def known_values(tables: Tables) -> tuple[list[str], list[str]]:
    """The causes and the topics of quarantined records."""
    tables.view(NAME, columns=["cause", "origin"])
    causes = tables.values(f"SELECT DISTINCT cause FROM {NAME} ORDER BY ALL")
    topics = tables.values(
        f"SELECT DISTINCT origin.topic FROM {NAME} WHERE origin.topic IS NOT NULL ORDER BY ALL"
    )
    return [cause for (cause,) in causes], [topic for (topic,) in topics]


def _plain(row: Row) -> Row:
    origin = present(row["origin"])
    if "timestamp" in origin:
        origin["timestamp"] = iso(origin["timestamp"])
    key = MessageId(row["topic_number"], row["partition"], row["offset"])
    return {
        "id": str(key),
        "topic": origin.get("topic"),
        "at": origin.get("timestamp"),
        **row,
        "origin": origin,
        "record_key": as_json(decoded(row["record_key"])),
        "record_value": as_json(decoded(row["record_value"])),
        "kafka_headers": [
            {"key": one["key"], "value": as_json(decoded(one["value"]))}
            for one in row["kafka_headers"] or []
        ],
    }
