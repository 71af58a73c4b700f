"""Sends dead letters to a Kafka topic with the headers of Kafka Connect's dead-letter queue.

    rows of `dead_letters`  -->  one record each: the body, its own headers, `__connect.errors.*`

Programs that read Connect's dead letters read these as well. Headers that begin with `dlx-` say
what Connect has no header for: vhost, queue, exchange, routing key, AMQP properties and headers.

Replay: `dlx-vhost`, `dlx-lane` and `dlx-seq` identify a death, and the number only goes up in a
partition, since all deaths of a queue go to the same one. A replayed batch sends the same records
again, and a reader drops those that are not above the highest number that it has seen of a vhost,
lane and queue.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from streaming.pipeline.outbound.producer import OutboundError, sender_of
from streaming.pipeline.outbound.truncation import Header
from streaming.pipeline.task import OutboundTask
from streaming.protocol import record_headers as wire
from streaming.record_sender import RecordSender, SendError

CONNECTOR: Final = "dlx"
"""The connector that the headers name."""

_COLUMNS: Final = (
    *("vhost", "lane", "seq", "queue", "reason", "count", "exchange", "routing_key"),
    *("properties", "headers", "kafka_headers", "origin", "body", "copy_id", "outcome"),
)
_PREFIX: Final = "__connect.errors."


def sent(
    tables: Iterator[tuple[int, pa.Table]], outbound: OutboundTask
) -> Iterator[tuple[int, pa.Table]]:
    """Pass on tables of dead letters, and send their rows to the topic; at the end Kafka has all.

    Raises:
        OutboundError: Kafka did not accept them.
    """
    try:
        with sender_of(outbound.producer).sending() as sender:
            for first, table in tables:
                _send(table, outbound.dead_letters, sender)
                yield first, table
    except SendError as error:
        raise OutboundError(f"dead letters for {outbound.dead_letters!r}: {error}") from error


def _send(table: pa.Table, topic: str, sender: RecordSender) -> None:
    for batch in table.select(list(_COLUMNS)).to_batches():
        for row in batch.to_pylist():
            sender.send(topic, row["body"], key=row["queue"].encode(), headers=headers_of(row))


def headers_of(row: dict[str, Any]) -> list[Header]:
    """The headers of the record of a row of `dead_letters`."""
    origin = row["origin"] or {}
    place = f"queue {row['queue']!r} of vhost {row['vhost']!r}"
    times = f", {row['count']} times" if row["count"] and row["count"] > 1 else ""
    errors = {
        "topic": origin.get("topic"),
        "partition": origin.get("partition"),
        "offset": origin.get("offset"),
        "connector.name": CONNECTOR,
        "task.id": row["lane"],
        "stage": row["queue"],
        "class.name": "queue",
        "exception.class.name": row["reason"],
        "exception.message": f"{row['reason']} in {place}{times}",
    }
    ours = {
        wire.VHOST: row["vhost"],
        wire.LANE: row["lane"],
        wire.SEQ: row["seq"],
        wire.QUEUE: row["queue"],
        wire.COPY_ID: row["copy_id"],
        wire.EXCHANGE: row["exchange"],
        wire.ROUTING_KEY: row["routing_key"],
        wire.HEADERS: row["headers"],
    }
    foreign = [
        (one["key"], one["value"])
        for one in row["kafka_headers"] or ()
        if not one["key"].startswith(wire.OURS)
    ]
    headers = [*foreign, *_texts({f"{_PREFIX}{name}": each for name, each in errors.items()})]
    headers += _texts(ours)
    properties = {name: one for name, one in (row["properties"] or {}).items() if one is not None}
    if properties:
        headers.append((wire.PROPERTIES, msgspec.json.encode(properties)))
    return headers


def _texts(values: dict[str, Any]) -> list[Header]:
    return [(name, str(value).encode()) for name, value in values.items() if value is not None]
