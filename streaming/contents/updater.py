"""Update the Delta table `queue_contents`, off the batch path.

    net changes of the batches since as_of, as the tasks reported them
    or events of the batches since as_of --> their net effect --> the files with a changed row
                                                                      |
          one commit: remove those, add new files, as_of = last batch <--+

Net changes are in the driver's memory. So a job reads events in its first update, which covers what
happened before it started, and whenever a task could not report its net changes.

Replay: the commit that changes the rows also records the last applied batch (a Delta transaction
identifier: query id, batch id). An update that crashes before its commit has no effect; one that
crashes afterwards is not repeated. Vacuum removes files that were never committed. Two concurrent
updates exclude each other by the same identifier: the second one starts over.

Files hold at most FILE_ROWS rows, ordered by copy. Queues are first in, first out, so updates
change the oldest rows and append new ones, and the files in between stay. With a million rows,
rewriting everything takes five times as long. A merge by deltalake takes twice as long and leaves
one more small file each time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from streaming.contents.pending_nets import (
    PendingNets,
    contents_after,
    outdated_files,
    read_contents,
)
from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import Retention, delta_schema, open_table
from streaming.ledger.write.data_file import DataFileName, ranges
from streaming.ledger.write.log_actions import add_action, commit, removal
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.queries.as_of.contents import (
    CONTENTS,
    EVENTS,
    NEVER_APPLIED,
    Progress,
    collect_moves,
    current_contents,
    progress,
    query_ids,
)
from streaming.queries.as_of.snapshots import snapshot_before, snapshot_contents
from streaming.queries.duckdb_tables import DELETION_VECTORS, Tables, text
from streaming.storage.location import Location

FILE_ROWS: Final = 64 * 1024

_SPEC: Final = TABLES[CONTENTS]
_STAGE: Final = "contents"
_ATTEMPTS: Final = 5

Commit = Callable[[DeltaTable, Schema, Sequence[AddAction | RemoveAction], CommitProperties], None]
"""See `ledger.write.log_actions.commit`."""


@dataclass(frozen=True)
class Updated:
    """The result of one update; written rows include those that only moved."""

    batch_id: int
    rows: int
    written: int
    files: int
    seconds: float


class ContentsUpdater:
    """Applies events to `queue_contents`. Use it from one thread at a time.

    Args:
        query_id: the query that is writing batches; None: only those that have written events.
        threads: threads of DuckDB; None: one per core.
        file_rows: the most rows of a file.
        commit: makes a version of the table.

    Attributes:
        nets: net changes of committed batches; an update that has all it needs reads no events.
    """

    def __init__(
        self,
        root: Location,
        query_id: str | None = None,
        *,
        threads: int | None = 1,
        retention: Retention | None = None,
        file_rows: int = FILE_ROWS,
        commit: Commit = commit,
    ) -> None:
        self._root = root
        self._query_id = query_id
        self._threads = threads
        self._retention = retention
        self._file_rows = file_rows
        self._commit = commit
        self._queries: list[str] | None = None
        self.nets = PendingNets()

    def update(self) -> Updated | None:
        """Apply the batches that are not applied yet.

        Returns:
            The result; None if there was nothing to apply.

        Raises:
            CommitError: other processes kept changing the table.
        """
        return self._retry(rebuild=False)

    def rebuild(self) -> Updated:
        """Rebuild the whole table from the last snapshot and the events after it."""
        done = self._retry(rebuild=True)
        assert done is not None, "a rebuild always writes"
        return done

    def _retry(self, *, rebuild: bool) -> Updated | None:
        refused: CommitFailedError | None = None
        for _ in range(_ATTEMPTS):
            try:
                return self._apply(rebuild=rebuild)
            except CommitFailedError as error:  # another process was first: start over
                refused = error
        raise CommitError(
            f"{(self._root / CONTENTS).url} could not be updated in {_ATTEMPTS} attempts: {refused}"
        )

    def _apply(self, *, rebuild: bool) -> Updated | None:
        started = time.perf_counter()
        done = None if rebuild else self._apply_nets(started)
        if done is not None:
            return done
        with Tables(self._root.url, self._root.options, threads=self._threads) as tables:
            tables.table(EVENTS)  # without events, queue_contents is not created
            table = open_table(self._root, CONTENTS, self._retention)
            behind = progress(tables, self._known_queries(tables))
            if rebuild or any(one.as_of == NEVER_APPLIED for one in behind):
                replaced = tables.files(CONTENTS)
                snapshot = snapshot_before(tables)
                as_of = NEVER_APPLIED if snapshot is None else snapshot.batch_id
                behind = [one._replace(as_of=as_of) for one in behind]
                moves = collect_moves(tables, behind)
                stored = None if snapshot is None else snapshot_contents(tables, snapshot)
            elif all(one.as_of >= one.last for one in behind):
                return None
            else:
                moves = collect_moves(tables, behind)
                replaced = _changed_files(tables, self._file_rows // 2)
                stored = tables.view(CONTENTS, files=replaced) if replaced else None
            rows = _read(tables, current_contents(stored, moves))
        return self._replace(table, replaced, rows, behind, started)

    def _apply_nets(self, started: float) -> Updated | None:
        """Apply net changes; None if they are not complete, and events must be read."""
        query_id = self.nets.query_id
        if not query_id:
            return None
        table = open_table(self._root, CONTENTS, self._retention)
        if DELETION_VECTORS in (table.protocol().reader_features or ()):
            return None  # of another tool; files have more rows than the table
        as_of = table.transaction_version(query_id)
        found = None if as_of is None else self.nets.after(query_id, as_of)
        if as_of is None or found is None:
            return None
        last, nets = found
        storage = (self._root / CONTENTS).storage()
        replaced = outdated_files(storage, ActiveFiles(table), nets, self._file_rows // 2)
        rows = contents_after([read_contents(storage, path) for path in replaced], nets)
        return self._replace(table, replaced, rows, [Progress(query_id, as_of, last)], started)

    def _replace(
        self,
        table: DeltaTable,
        replaced: Sequence[str],
        rows: pa.Table,
        applied: Sequence[Progress],
        started: float,
    ) -> Updated:
        """Replace files by new ones with these rows, and record the applied batches.

        Raises:
            CommitFailedError: another process did so since the table was loaded.
        """
        added = list(self._write(rows, applied))
        now_ms = time.time_ns() // 1_000_000
        removed = [removal(path, None, now_ms, data_change=True) for path in replaced]
        transactions = [Transaction(one.query_id, one.last) for one in applied]
        properties = CommitProperties(app_transactions=transactions)
        self._commit(table, delta_schema(_SPEC), [*added, *removed], properties)
        table.update_incremental()
        counts = table.get_add_actions(flatten=True).column("num_records").to_pylist()
        last = max(one.last for one in applied)
        seconds = time.perf_counter() - started
        return Updated(last, sum(counts), rows.num_rows, len(counts), seconds)

    def _known_queries(self, tables: Tables) -> list[str]:
        """The queries with batches; looked up once, since it reads every compacted file."""
        if self._queries is None:
            found = set(query_ids(tables))
            if self._query_id is not None:
                found.add(self._query_id)
            self._queries = sorted(found)
        return self._queries

    def _write(self, rows: pa.Table, applied: Sequence[Progress]) -> Iterator[AddAction]:
        """Publish the rows in files, under names unique to this attempt."""
        storage = (self._root / CONTENTS).storage()
        latest = max(applied, key=lambda one: one.last)
        attempt = time.time_ns()
        for index, first in enumerate(range(0, rows.num_rows, self._file_rows)):
            part = rows.slice(first, self._file_rows)
            path = str(
                DataFileName(latest.query_id, max(latest.last, 0), _STAGE, f"{index:05}", attempt)
            )
            storage.create(path, write_row_groups(part, _SPEC.schema, {"dlx.table": CONTENTS}))
            size = storage.size(path)
            assert size is not None, f"{path} was written and then removed"
            now_ms, found = attempt // 1_000_000, ranges(_SPEC, part)
            yield add_action(_SPEC, path, size, part.num_rows, found, modified_ms=now_ms)


def _changed_files(tables: Tables, half: int) -> list[str]:
    """The files to rewrite: those with a changed row, and those less than half full.

    Statistics say which files can have a changed row; only those are read. At most one file is less
    than half full.

    Args:
        half: rows of a file that is half full.
    """
    files = ActiveFiles(tables.table(CONTENTS))
    [(first, last)] = tables.values(
        "SELECT min(copy_id), max(copy_id) FROM (SELECT copy_id FROM gone UNION ALL "
        "SELECT copy_id FROM changed)"
    )
    small = files.rows < half
    near = np.zeros(len(files), np.bool_)
    if first is not None:
        near = (files.least("copy_id") <= last) & (files.greatest("copy_id") >= first)
    few = [path for path, is_small in zip(files.paths, small, strict=True) if is_small]
    rest = [files.paths[index] for index in np.flatnonzero(near & ~small)]
    chosen = tables.paths(CONTENTS, rest)
    if chosen is None:
        return sorted(files.paths)
    if not chosen:
        return sorted(few)
    paths = ", ".join(map(text, chosen))
    found = tables.values(
        f"""
        SELECT parse_filename(filename)
        FROM read_parquet([{paths}], filename = true) AS stored
        LEFT JOIN gone USING (vhost, lane, copy_id)
        LEFT JOIN changed USING (vhost, lane, copy_id)
        GROUP BY filename
        HAVING count(gone.copy_id) + count(changed.copy_id) > 0
        """
    )
    return sorted([*few, *(name for (name,) in found)])


def _read(tables: Tables, query: str) -> pa.Table:
    """The rows of a query, with the table's columns, types and order."""
    columns = ", ".join(f'"{name}"' for name in _SPEC.schema.names)
    order = ", ".join(("vhost", *_SPEC.order))
    found = tables.connection.sql(f"SELECT {columns} FROM ({query}) ORDER BY {order}")
    rows: pa.Table = found.to_arrow_table()
    return rows.cast(_SPEC.schema.remove_metadata())
