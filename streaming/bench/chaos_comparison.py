"""What `dlx bench chaos` compares: the tables and outbound records of two jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.bench.chaos_job import ChaosJob

COMPARED = ("messages", "quarantine", "dead_letters", "events", "queue_contents")


def compare(first: ChaosJob, second: ChaosJob, servers: str) -> list[str]:
    """The tables and outbound topics in which two jobs differ, in words."""
    differences = compare_tables(first.tables, second.tables)
    one_out, other_out = (_outbound(job, servers) for job in (first, second))
    if one_out != other_out:
        differences.append(f"outbound: {len(one_out)} records against {len(other_out)}")
    return differences


def compare_tables(first: Path, second: Path) -> list[str]:
    """The tables in which the folders of two jobs differ, in words."""
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
    """The rows of a table as texts, sorted, without what says which job and batch wrote them."""
    rows: list[str] = []
    for uri in DeltaTable(str(tables / table)).file_uris():
        found = pq.read_table(uri).drop_columns(["query_id", "batch_id"])
        rows += [repr(row) for row in found.to_pylist() if row.get("kind") != "batch"]
    return sorted(rows)


def _outbound(job: ChaosJob, servers: str) -> list[tuple[Any, ...]]:
    """Outbound records after dropping repeats: what is not above the highest number seen."""
    topic = job.config.outbound_topics()[("/", "guest")]
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
        if headers["dlx-kind"] == b"flow":  # says where the gate stood, not what became of the log
            continue
        number = int(headers["dlx-seq"] or 0)
        if number > highest:
            highest = number
            found.append((message.key(), message.value(), sorted(headers.items())))
    consumer.close()
    return found
