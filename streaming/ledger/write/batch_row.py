"""Writes and reads the row of kind `batch` (`ledger.batch_detail`).

It is committed with the batch's other events, so it exists exactly if the batch happened.

Inside the tables most rows prove each other (see `streaming.queries.audit`). The totals in the row
cover the others: the last row of a shard, a quarantined record, and a batch that lost all its rows.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.ledger.batch_detail import BatchDetail, BatchRow, read_detail, write_detail
from streaming.ledger.errors import DataFileConflictError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import DRIVER, DataFile, DataFileName, write_data_file
from streaming.storage.port import Storage

BATCH_KIND: Final = "batch"
BATCH_STAGE: Final = "batch"

_EVENTS: Final = TABLES["events"]
_COLUMNS: Final = ["query_id", "batch_id", "at", "kind", "detail"]
_MICROS: Final = 1000


def write_batch_row(storage: Storage, row: BatchRow) -> DataFile:
    """Publish a batch's row; it counts once the batch's events are committed.

    Replay: the row of the first attempt stays, even if this attempt measured other values (for
    example of the gate). Its totals must be the same: the tables may have the rows of the first
    attempt, and the state will be that of this one.

    Raises:
        DataFileConflictError: the existing file is not a row of this batch at this instant, or this
            attempt has other rows.
    """
    name = DataFileName(row.query_id, row.batch_id, BATCH_STAGE, DRIVER)
    path = str(name)
    try:
        written = write_data_file(storage, _EVENTS, name, _table(row))
    except DataFileConflictError:
        first = _read_file(storage, path)
        if first is None or first.now_ms != row.now_ms:
            raise
        _refuse_other_rows(path, first, row)
        written = write_data_file(storage, _EVENTS, name, _table(first))
    assert written is not None, "the table has one row"
    return written


def _refuse_other_rows(path: str, first: BatchRow, again: BatchRow) -> None:
    """Refuse a batch that has other rows when it runs again, as another version of dlx may."""
    before, now = first.detail, again.detail
    for name, begun, has in (
        ("rows", _without_quarantine(before), _without_quarantine(now)),
        ("last_seq", before.last_seq, now.last_seq),
    ):
        if begun != has:
            raise DataFileConflictError(
                f"{path}: batch {first.batch_id} was begun with {name} {begun}, by core version "
                f"{before.core_version}, and has {has} when it runs again, by "
                f"{now.core_version}. Let the version that began it finish it. If "
                "the tables have it, `dlx checkpoint rebuild --replace` also continues from them"
            )


def _without_quarantine(detail: BatchDetail) -> dict[str, int]:
    """The rows by table; a range that Kafka has lost is quarantined once."""
    rows = detail.rows or {}
    return {table: count for table, count in rows.items() if table != "quarantine"}


def _table(row: BatchRow) -> pa.Table:
    columns = {
        "query_id": Constant(row.query_id),
        "batch_id": [row.batch_id],
        "at": pa.array([row.now_ms * _MICROS], pa.int64()),
        "kind": Constant(BATCH_KIND),
        "detail": [write_detail(row.detail)],
    }
    return build_table(_EVENTS.schema, columns, 1)


def _read_file(storage: Storage, path: str) -> BatchRow | None:
    """The row in a batch's own file; None if there is no such file or it has no batch row."""
    try:
        with storage.open(path) as file:
            rows = _rows(pq.read_table(file, columns=_COLUMNS))
    except (pa.ArrowInvalid, OSError):
        return None
    return rows[0] if len(rows) == 1 else None


def _rows(table: pa.Table) -> list[BatchRow]:
    instants = table["at"].cast(pa.int64()).to_pylist()
    return [
        BatchRow(query_id, batch_id, at // _MICROS, read_detail(detail))
        for query_id, batch_id, at, detail in zip(
            table["query_id"].to_pylist(),
            table["batch_id"].to_pylist(),
            instants,
            table["detail"].to_pylist(),
            strict=True,
        )
    ]


def last_batch_row(events: DeltaTable, storage: Storage, query_id: str) -> BatchRow | None:
    """The row of a query's last batch; None if it has committed none."""
    batch_id = events.transaction_version(query_id)
    if batch_id is None:
        return None
    rows = list(batch_rows(events, storage, query_id, batch_id, batch_id))
    assert len(rows) == 1, f"{len(rows)} rows of kind batch for batch {batch_id} in {events}"
    return rows[0]


def batch_rows(
    events: DeltaTable, storage: Storage, query_id: str, first: int, last: int
) -> Iterator[BatchRow]:
    """The rows of batches `first` to `last` (inclusive), in order.

    Only files that may hold them are read.
    """
    rows: list[BatchRow] = []
    for path in _files_with_batches(events, first, last):
        with storage.open(path) as file:
            found = pq.read_table(
                file,
                columns=_COLUMNS,
                filters=(pc.field("kind") == BATCH_KIND)
                & (pc.field("query_id") == query_id)
                & (pc.field("batch_id") >= first)
                & (pc.field("batch_id") <= last),
            )
        rows += _rows(found)
    yield from sorted(rows, key=lambda row: row.batch_id)


def _files_with_batches(events: DeltaTable, first: int, last: int) -> list[str]:
    files = ActiveFiles(events)
    may_hold = (
        (files.least("batch_id") <= last)
        & (files.greatest("batch_id") >= first)
        & files.may_hold("kind", BATCH_KIND)
    )
    return [files.paths[index] for index in np.flatnonzero(may_hold)]


def totals(files: Iterable[DataFile]) -> BatchDetail:
    """The totals that a batch row should hold of the batch's other data files."""
    rows: dict[str, int] = {}
    last: dict[tuple[str, int], int] = {}
    for file in files:
        rows[file.table] = rows.get(file.table, 0) + file.rows
        if file.table == _EVENTS.name:
            ranges = file.ranges
            shard = (str(ranges["vhost"].greatest), int(ranges["lane"].greatest or 0))
            last[shard] = max(last.get(shard, 0), int(ranges["seq"].greatest or 0))
    last_seq = [(vhost, lane, seq) for (vhost, lane), seq in sorted(last.items())]
    return BatchDetail(rows=rows, last_seq=last_seq)
