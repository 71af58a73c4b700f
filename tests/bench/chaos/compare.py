"""Compares the tables and the outbound records of two jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from streaming.protocol.record_headers import KIND, SEQ

COMPARED = ("messages", "quarantine", "dead_letters", "events", "queue_contents")


def compare_tables(first: Path, second: Path) -> list[str]:
    """Return one text per table in which two folders differ."""
    differences = []
    for table in COMPARED:
        one, other = (rows_of(tables, table) for tables in (first, second))
        if one != other:
            known, others = set(one), set(other)
            only = [row for row in one if row not in others][:2]
            more = [row for row in other if row not in known][:2]
            differences.append(
                f"{table}: {len(one)} rows against {len(other)}; "
                f"only the first has {only}, only the second {more}"
            )
    return differences


def rows_of(tables: Path, table: str) -> list[str]:
    """Return the rows of a table as sorted texts, without the job and batch that wrote them."""
    rows: list[str] = []
    for uri in DeltaTable(str(tables / table)).file_uris():
        found = pq.read_table(uri).drop_columns(["query_id", "batch_id"])
        rows += [repr(row) for row in found.to_pylist() if row.get("kind") != "batch"]
    return sorted(rows)


def compare_outbound(servers: str, first: str, second: str) -> list[str]:
    """Return a text if the records of two outbound topics differ."""
    one, other = (_outbound(servers, topic) for topic in (first, second))
    return [] if one == other else [f"outbound: {len(one)} records against {len(other)}"]


def _outbound(servers: str, topic: str) -> list[tuple[Any, ...]]:
    """The records of a topic without repeats, whose number is not above the highest before."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
    )
    partition = TopicPartition(topic, 0, 0)
    _low, high = consumer.get_watermark_offsets(partition, timeout=30)
    consumer.assign([partition])
    found: list[tuple[Any, ...]] = []
    highest = 0
    position = 0
    while position < high:
        message = consumer.poll(5)
        if message is None or message.error() is not None:
            continue
        position = (message.offset() or 0) + 1
        headers = dict(message.headers() or [])
        if headers[KIND] == b"flow":  # depends on memory, not on the log
            continue
        number = int(headers[SEQ] or 0)
        if number > highest:
            highest = number
            found.append((message.key(), message.value(), sorted(headers.items())))
    consumer.close()
    return found
