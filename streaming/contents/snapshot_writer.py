"""Write snapshots: the totals, the copies and the topology after a batch, off its path.

    snapshot before  +  events after it  -->  snapshot_contents, then snapshots (one commit each)

A snapshot is a function of the ledger and its batch: which snapshot it starts from does not matter,
so two processes that write one of the same batch write the same files.

Replay: the copies are committed first, the rows of `snapshots` make the snapshot exist. Both
commits carry the batch (a Delta transaction identifier), so a repeated one is skipped.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from streaming.ledger.batch_detail import BatchDetail
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import Retention, load_table
from streaming.ledger.write.batch_row import batch_rows
from streaming.ledger.write.data_file import DRIVER, DataFile, DataFileName, write_data_file
from streaming.ledger.write.table_writer import TableWriter
from streaming.queries.as_of.contents import EVENTS, prepare_contents, query_ids
from streaming.queries.as_of.instant import last_batch
from streaming.queries.as_of.snapshots import (
    SNAPSHOT_CONTENTS,
    SNAPSHOTS,
    Snapshot,
    channel_events,
    snapshot_before,
    totals_of,
)
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.vhosts.clients import open_channels
from streaming.queries.vhosts.declared import declared
from streaming.storage.location import Location

FILE_ROWS: Final = 256 * 1024

_CONTENTS: Final = TABLES[SNAPSHOT_CONTENTS]
_SNAPSHOTS: Final = TABLES[SNAPSHOTS]
_FATES: Final = """
    SELECT vhost, lane, queue, CASE WHEN parent_copy_id IS NULL THEN 'published'
        ELSE 'dead_lettered' END AS fate, count(*) AS number
    FROM stretch WHERE copy_id = seq GROUP BY ALL
    UNION ALL
    SELECT vhost, lane, queue, CASE kind WHEN 'died' THEN reason ELSE kind END AS fate, count(*)
    FROM stretch WHERE kind NOT IN ('enqueued', 'held', 'topology', 'channel', 'batch', 'warning')
    AND vhost IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT vhost, lane, queue, unnest(['events/' || kind, 'events/published',
        'events/redelivered']), unnest([count(*),
        count(*) FILTER (kind = 'enqueued' AND parent_copy_id IS NULL),
        count(*) FILTER (kind IN ('delivered', 'consumed') AND number > 0)])
    FROM stretch WHERE vhost IS NOT NULL GROUP BY vhost, lane, queue, kind
    UNION ALL
    SELECT vhost, lane, queue,
        'deaths/' || reason || '/' || coalesce(nullif(outcome, ''), 'dead_lettered'), count(*)
    FROM dead_letters GROUP BY ALL
    UNION ALL
    SELECT vhost, lane, NULL, 'messages', count(*) FROM messages GROUP BY ALL
    UNION ALL
    SELECT NULL, NULL, NULL, 'quarantined', count(*) FROM quarantine
"""


class WrittenSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that was written: the batch, the copies in queues, the time it took."""

    batch_id: int
    copies: int
    totals: int
    seconds: float


class SnapshotWriter:
    """Writes snapshots of the tables below a place.

    Args:
        threads: threads of DuckDB; None: one per core.
    """

    def __init__(
        self, root: Location, *, threads: int | None = 1, retention: Retention | None = None
    ) -> None:
        self._root = root
        self._threads = threads
        self._retention = retention

    def write(self, batch_id: int | None = None) -> WrittenSnapshot | None:
        """Write a snapshot after a batch; None: after the last one.

        Returns:
            The result; None if there is one already, or no batch has happened.

        Raises:
            QueryError: there is no such batch, or the tables have batches of several checkpoints.
        """
        started = time.perf_counter()
        with self._tables() as tables:
            if not query_ids(tables):
                return None
            last = last_batch(tables)
            batch_id = last if batch_id is None else batch_id
            if not 0 <= batch_id <= last:
                raise QueryError(f"there is no batch {batch_id}: the last batch is {last}")
            tables.cut = Cut(batch_id)
            before = snapshot_before(tables)
            if before is not None and before.batch_id == batch_id:
                return None
            [query_id] = query_ids(tables)
            contents = _read_contents(tables, batch_id)
            rows = _snapshot_rows(tables, self._root, query_id, batch_id, before)
        self._commit(SNAPSHOT_CONTENTS, query_id, batch_id, contents)
        self._commit(SNAPSHOTS, query_id, batch_id, rows)
        seconds = time.perf_counter() - started
        totals = sum(kind == "total" for kind in rows["kind"].to_pylist())
        return WrittenSnapshot(batch_id, contents.num_rows, totals, seconds)

    def _tables(self) -> Tables:
        return Tables(self._root.url, self._root.options, threads=self._threads)

    def _commit(self, name: str, query_id: str, batch_id: int, rows: pa.Table) -> None:
        writer = TableWriter(self._root, name, self._retention)
        writer.commit_batch(query_id, batch_id, list(self._files(name, query_id, batch_id, rows)))

    def _files(self, name: str, query_id: str, batch_id: int, rows: pa.Table) -> Iterator[DataFile]:
        storage = (self._root / name).storage()
        for first in range(0, rows.num_rows, FILE_ROWS):
            file_name = DataFileName(query_id, batch_id, name, DRIVER, first)
            part = rows.slice(first, FILE_ROWS)
            file = write_data_file(storage, TABLES[name], file_name, part)
            if file is not None:
                yield file


def _read_contents(tables: Tables, batch_id: int) -> pa.Table:
    columns = ", ".join(
        f'"{name}"' if name != "snapshot" else f"CAST({batch_id} AS BIGINT) AS snapshot"
        for name in _CONTENTS.schema.names
    )
    query = prepare_contents(tables, whole=True)
    found = tables.connection.sql(
        f"SELECT {columns} FROM ({query}) ORDER BY vhost, lane, copy_id"
    ).to_arrow_table()
    return found.cast(_CONTENTS.schema.remove_metadata())


def _snapshot_rows(
    tables: Tables, root: Location, query_id: str, batch_id: int, before: Snapshot | None
) -> pa.Table:
    """The rows of a snapshot: itself, the totals, the topology of each vhost, open channels."""
    since = -1 if before is None else before.batch_id
    topology = declared(tables)
    channels = _channel_rows(tables)
    for name in (EVENTS, "messages", "dead_letters", "quarantine"):
        tables.view(name, files=tables.files(name, {"batch_id": since}), view=f"all {name}")
        view = "stretch" if name == EVENTS else name
        tables.define(view, f'FROM "all {name}" WHERE batch_id > {since}')
    totals: dict[tuple[str, int, str, str], int] = {}
    known = [] if before is None else totals_of(tables, before)
    for row in [*known, *tables.rows(_FATES)]:
        key = (row["vhost"] or "", row["lane"] or 0, row["queue"] or "", row["fate"])
        if row["fate"] is not None and row["number"]:
            totals[key] = totals.get(key, 0) + row["number"]
    ends = {} if before is None else {(vhost, lane): seq for vhost, lane, seq in before.last_seq}
    found = tables.values(
        "SELECT vhost, lane, max(seq) FROM stretch WHERE seq IS NOT NULL GROUP BY ALL"
    )
    ends |= {(vhost, lane): seq for vhost, lane, seq in found}
    [(at,)] = tables.values(
        "SELECT epoch_us(max(\"at\")) FROM stretch WHERE kind <> 'batch' AND seq IS NOT NULL"
    )
    if before is not None and before.at is not None:
        at = max(at or 0, int(before.at.timestamp() * 1_000_000))
    detail: dict[str, Any] = {
        "last_seq": [[*shard, seq] for shard, seq in sorted(ends.items())],
        "batch": _batch_detail(root, query_id, batch_id),
    }
    rows: list[dict[str, Any]] = [{"kind": "snapshot", "detail": _json(detail)}]
    rows += [
        {
            "kind": "total",
            "vhost": vhost or None,
            "lane": lane if vhost else None,
            "queue": queue or None,
            "fate": fate,
            "number": number,
        }
        for (vhost, lane, queue, fate), number in sorted(totals.items())
    ]
    rows += [
        {"kind": "topology", "vhost": vhost, "detail": _json([*each.details.values()])}
        for vhost, each in topology.items()
    ]
    rows += channels
    shared = {"query_id": query_id, "batch_id": batch_id, "at": at}
    return pa.Table.from_pylist(
        [{**shared, **row} for row in rows], _SNAPSHOTS.schema.remove_metadata()
    )


def _channel_rows(tables: Tables) -> list[dict[str, Any]]:
    """The events of the channels that are open, and of their consumers."""
    is_open = {*open_channels(tables)}
    channel_events(tables)
    found = tables.values(
        "SELECT vhost, lane, queue, coalesce(detail ->> '$.name', channel) AS name, seq, "
        'epoch_us("at"), "user", channel, detail FROM channel_event ORDER BY vhost, lane, seq'
    )
    return [
        {
            "kind": "channel",
            "vhost": vhost,
            "lane": lane,
            "queue": queue,
            "detail": _json(
                {"seq": seq, "at_us": at_us, "user": user, "channel": channel, "detail": detail}
            ),
        }
        for vhost, lane, queue, name, seq, at_us, user, channel, detail in found
        if (vhost, name) in is_open
    ]


def _batch_detail(root: Location, query_id: str, batch_id: int) -> BatchDetail:
    """What the batch row says that a later start or balance needs; empty for an empty batch."""
    place = root / EVENTS
    rows = list(batch_rows(load_table(place), place.storage(), query_id, batch_id, batch_id))
    return rows[0].detail if rows else BatchDetail()


def _json(document: object) -> str:
    plain = msgspec.to_builtins(document, str_keys=True)
    return msgspec.json.encode(plain, order="deterministic").decode()
