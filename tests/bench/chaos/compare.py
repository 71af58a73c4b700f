"""Compares the tables and the outbound records of two jobs.

Several partitions feed the vhost `merged`. Where batches begin decides how their records merge, and
so the order and the instants of its events. Its rows are compared as a set without these; in the
queues in which the order decides which messages stay, by their number alone. Everything else must
be equal, row by row.

A job whose checkpoint was rebuilt may differ from an undisturbed one in this, and in nothing else:

- The rebuild closes every channel, so there are more events of channels. The numbers of later
  events, and so of copies, are higher by as many. The comparison of the tables leaves these events
  out and subtracts them from the numbers; everything else must be equal, row by row.
- A batch that was lost with the checkpoint may have sent records already, and they are sent again
  with higher numbers. So each outbound record counts once, without the numbers of records and of
  events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from streaming.protocol.record_headers import COPY_ID, DELIVERY_ID, KIND, LANE, SEQ
from streaming.storage.location import Location
from tests.bench.chaos.log import COUNTED_QUEUES, MERGED

COMPARED = ("messages", "quarantine", "dead_letters", "events", "queue_contents")

_WRITTEN = ("query_id", "batch_id")
_NUMBERS = ("seq", "copy_id", "parent_copy_id")
_ORDERED = frozenset(
    {
        *("seq", "copy_id", "parent_copy_id", "number", "position", "at", "enqueued_at"),
        *("expires_at", "x_death", "detail", "envelope"),
    }
)
"""Columns that depend on the order in which records merge."""

_COUNTED = ("vhost", "lane", "kind", "queue", "reason", "state", "outcome", "targets", "exchange")
_EXAMPLES = 2


class EventNumbers:
    """The numbers that events would have if channels opened and closed without events."""

    def __init__(self, tables: Path | Location) -> None:
        found: dict[tuple[Any, Any], list[int]] = {}
        for part in _files(tables, "events"):
            for row in part.select(["kind", "vhost", "lane", "seq"]).to_pylist():
                if row["kind"] == "channel":
                    found.setdefault((row["vhost"], row["lane"]), []).append(row["seq"])
        self._seqs = {place: np.sort(np.array(seqs)) for place, seqs in found.items()}

    def of(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row of a table with these numbers."""
        seqs = self._seqs.get((row.get("vhost"), row.get("lane")), ())
        changed = dict(row)
        for name in _NUMBERS:
            if row.get(name) is not None:
                changed[name] -= int(np.searchsorted(seqs, row[name]))
        return changed


def compare_tables(
    first: Path | Location, second: Path | Location, *, rebuilt: bool = False
) -> list[str]:
    """Return one text per table in which two folders, or places in an object store, differ.

    Args:
        rebuilt: whether the checkpoint of one of the jobs was rebuilt; see above.
    """
    differences = []
    for table in COMPARED:
        one, other = (rows_of(tables, table, rebuilt=rebuilt) for tables in (first, second))
        differences += _difference(table, one, other)
    return differences


def rows_of(tables: Path | Location, table: str, *, rebuilt: bool = False) -> list[str]:
    """Return the rows of a table as sorted texts, without the job and batch that wrote them."""
    numbers = EventNumbers(tables) if rebuilt else None
    left_out = {"batch", "channel"} if rebuilt else {"batch"}
    rows: list[str] = []
    for part in _files(tables, table):
        found = part.drop_columns([one for one in _WRITTEN if one in part.column_names])
        for row in found.to_pylist():
            if row.get("kind") in left_out:
                continue
            if row.get("vhost") == MERGED and table != "messages":
                rows.append(repr(_in_any_order(row)))
            else:
                rows.append(repr(row if numbers is None else numbers.of(row)))
    return sorted(rows)


def _in_any_order(row: dict[str, Any]) -> dict[str, Any]:
    """What is the same of a row however the records of several partitions merge."""
    if row.get("queue") in COUNTED_QUEUES:
        return {name: row.get(name) for name in _COUNTED}
    return {name: value for name, value in row.items() if name not in _ORDERED}


def _files(tables: Path | Location, table: str) -> Iterator[pa.Table]:
    """The rows of a table by file."""
    place = (Location(str(tables)) if isinstance(tables, Path) else tables) / table
    storage = place.storage()
    for uri in DeltaTable(place.url, storage_options=dict(place.options)).file_uris():
        with storage.open(uri.rpartition("/")[2]) as file:
            yield pq.read_table(file)


def _difference(what: str, one: Sequence[Any], other: Sequence[Any]) -> list[str]:
    """Return a text if two lists differ."""
    if one == other:
        return []
    known, others = set(map(repr, one)), set(map(repr, other))
    only = [row for row in one if repr(row) not in others][:_EXAMPLES]
    more = [row for row in other if repr(row) not in known][:_EXAMPLES]
    return [
        f"{what}: {len(one)} rows against {len(other)}; only the first has {only}, only the second "
        f"{more}"
    ]


def compare_outbound(
    servers: str, first: str, second: str, *, rebuilt: bool = False, as_set: bool = False
) -> list[str]:
    """Return a text if the records of two outbound topics differ.

    Args:
        rebuilt: whether the checkpoint of one of the jobs was rebuilt; see above.
        as_set: whether their order and numbers may differ.
    """
    one, other = (outbound_records(servers, topic) for topic in (first, second))
    if rebuilt or as_set:
        one, other = (_unnumbered(records) for records in (one, other))
    if as_set:
        one, other = (sorted(records, key=repr) for records in (one, other))
    return _difference("outbound", one, other)


def _unnumbered(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The distinct records without the numbers of records and events, in order."""
    left_out = {SEQ, COPY_ID, DELIVERY_ID}
    found: dict[tuple[Any, ...], None] = {}
    for key, value, headers in records:
        kept = tuple(header for header in headers if header[0] not in left_out)
        said = value
        if (KIND, b"answer") in kept:
            answer = msgspec.json.decode(value)
            said = msgspec.json.encode({name: answer[name] for name in answer if name != "seq"})
        found[key, said, kept] = None
    return list(found)


def outbound_records(servers: str, topic: str) -> list[tuple[Any, ...]]:
    """The records of a topic without repeats, whose number is not above the highest before."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
    )
    partition = TopicPartition(topic, 0, 0)
    _low, high = consumer.get_watermark_offsets(partition, timeout=30)
    consumer.assign([partition])
    found: dict[Any, list[tuple[Any, ...]]] = {}
    highest: dict[Any, int] = {}
    position = 0
    while position < high:
        message = consumer.poll(5)
        if message is None or message.error() is not None:
            continue
        position = (message.offset() or 0) + 1
        headers = dict(message.headers() or [])
        if headers[KIND] == b"flow":  # depends on memory, not on the log
            continue
        lane, number = headers[LANE] or b"", int(headers[SEQ] or 0)
        if number > highest.get(lane, 0):
            highest[lane] = number
            record = (message.key(), message.value(), sorted(headers.items()))
            found.setdefault(lane, []).append(record)
    consumer.close()
    return [record for _lane, records in sorted(found.items()) for record in records]
