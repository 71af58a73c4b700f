"""Keeping the Delta table `queue_contents` current from `events`, off the path of a batch.

    events of the batches since as_of --> the net of them --> the files with a touched row
                                                                      |
              one commit: those out, new files in, as_of = last batch <--+

Replay: the last batch that is applied is in the table's own log, written with the rows (a Delta
transaction identifier: query id, batch id). An update that dies before its commit has done nothing,
one that dies after it is not repeated; files it wrote and did not commit have names of their own,
and vacuum removes them. Two updates at once exclude each other by the same identifier: the second
starts over.

Rows lie in files of at most FILE_ROWS, in order of their copies. Queues are first in, first out, so
what happens touches the oldest rows and makes new ones, and the files in between stay. With a
million rows, writing everything anew takes five times as long, and a merge by deltalake twice; it
also leaves one small file more each time (`python -m tests.bench.tables`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from streaming.contents.query import (
    CONTENTS,
    EVENTS,
    NEVER_APPLIED,
    Progress,
    collect_moves,
    current_contents,
    progress,
    query_ids,
)
from streaming.ledger.errors import CommitError
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import Retention, delta_schema, open_table
from streaming.ledger.storage import Place
from streaming.ledger.write.data_file import DataFileName, ranges
from streaming.ledger.write.log_actions import QUIETLY, add_action
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.queries.duckdb_tables import Tables, text

FILE_ROWS: Final = 64 * 1024

_SPEC: Final = TABLES[CONTENTS]
_STAGE: Final = "contents"
_TRIES: Final = 5


@dataclass(frozen=True)
class Updated:
    """What one update did.

    Attributes:
        batch_id: the last batch applied.
        rows: in the table now.
        written: rows in new files, among them those that only moved.
        files: in the table now.
    """

    batch_id: int
    rows: int
    written: int
    files: int
    seconds: float


class ContentsUpdater:
    """Applies what happened to `queue_contents`. Not for two threads at once.

    Args:
        root: of the tables.
        query_id: whose batches are being written; None: whoever has written events so far.
        threads: that DuckDB may use; None: one a core.
    """

    def __init__(
        self,
        root: Place,
        query_id: str | None = None,
        *,
        threads: int | None = 1,
        retention: Retention | None = None,
    ) -> None:
        self._root = root
        self._query_id = query_id
        self._threads = threads
        self._retention = retention
        self._queries: list[str] | None = None

    def update(self) -> Updated | None:
        """Apply the batches that are not applied yet.

        Returns:
            What was done; None if there was nothing to do.

        Raises:
            CommitError: others kept changing the table.
            QueryError: there are no events.
        """
        return self._retry(anew=False)

    def rebuild(self) -> Updated:
        """Work the whole table out anew from all events.

        Raises:
            As `update`.
        """
        done = self._retry(anew=True)
        assert done is not None, "a rebuild writes, always"
        return done

    def _retry(self, *, anew: bool) -> Updated | None:
        refused: CommitFailedError | None = None
        for _ in range(_TRIES):
            try:
                return self._apply(anew=anew)
            except CommitFailedError as error:  # another was first: begin with what it left
                refused = error
        raise CommitError(
            f"{self._root.below(CONTENTS).url}: could not be updated in {_TRIES} tries: {refused}"
        )

    def _apply(self, *, anew: bool) -> Updated | None:
        started = time.perf_counter()
        tables = Tables(self._root.url, self._root.options, threads=self._threads)
        try:
            tables.table(EVENTS)  # where there are none, no table is made
            table = open_table(self._root, CONTENTS, self._retention)
            behind = progress(tables, self._known_queries(tables))
            if anew or any(one.as_of == NEVER_APPLIED for one in behind):
                replaced = tables.files(CONTENTS)
                kept: set[str] = set()
                behind = [one._replace(as_of=NEVER_APPLIED) for one in behind]
            elif all(one.as_of >= one.last for one in behind):
                return None
            else:
                replaced, kept = [], set(tables.files(CONTENTS))
            collect_moves(tables, behind)
            stored = None
            if kept:
                replaced = _touched(tables, sorted(kept))
                kept -= set(replaced)
                stored = tables.view(CONTENTS, files=replaced) if replaced else None
            rows = _read(tables, current_contents(stored))
        finally:
            tables.close()
        added = list(self._write(rows, behind))
        removed = [_removal(path) for path in replaced]
        _commit(table, [*added, *removed], behind)
        counted = _counts(table)
        return Updated(
            max(one.last for one in behind),
            counted[0],
            rows.num_rows,
            counted[1],
            time.perf_counter() - started,
        )

    def _known_queries(self, tables: Tables) -> list[str]:
        """Whose batches there are; looked up once, for it takes a look at every event."""
        if self._queries is None:
            found = set(query_ids(tables))
            if self._query_id is not None:
                found.add(self._query_id)
            self._queries = sorted(found)
        return self._queries

    def _write(self, rows: pa.Table, applied: Sequence[Progress]) -> Iterator[AddAction]:
        """Publish the rows as files of FILE_ROWS, under names that no other attempt gives."""
        storage = self._root.below(CONTENTS).storage()
        latest = max(applied, key=lambda one: one.last)
        attempt = time.time_ns()
        for index, first in enumerate(range(0, rows.num_rows, FILE_ROWS)):
            part = rows.slice(first, FILE_ROWS)
            path = str(DataFileName(latest.query_id, max(latest.last, 0), _STAGE, index, attempt))
            storage.create(path, write_row_groups(part, _SPEC.schema, {"dlx.table": CONTENTS}))
            size = storage.size(path)
            assert size is not None, f"{path} was written and is gone"
            yield add_action(
                _SPEC,
                path=path,
                size=size,
                rows=part.num_rows,
                ranges=ranges(_SPEC, part),
                modified_ms=attempt // 1_000_000,
            )


def _touched(tables: Tables, files: Sequence[str]) -> list[str]:
    """The files to write anew: with a row that is gone or changed, or far from full.

    Of the latter there is one at most, if one is left alone that is not in the way.
    """
    folder = tables.folder(CONTENTS)
    if folder is None:
        return list(files)
    paths = ", ".join(text(str(folder / file)) for file in files)
    found = tables.values(
        f"""
        SELECT parse_filename(filename), count(*),
               count(gone.copy_id) + count(changed.copy_id)
        FROM read_parquet([{paths}], filename = true) AS stored
        LEFT JOIN gone USING (vhost, lane, copy_id)
        LEFT JOIN changed USING (vhost, lane, copy_id)
        GROUP BY filename
        """
    )
    return [name for name, rows, hit in found if hit or rows < FILE_ROWS // 2]


def _read(tables: Tables, query: str) -> pa.Table:
    """The rows of a query, with the columns, types and order of the table."""
    columns = ", ".join(f'"{name}"' for name in _SPEC.schema.names)
    order = ", ".join(("vhost", *_SPEC.order))
    found = tables.connection.sql(f"SELECT {columns} FROM ({query}) ORDER BY {order}")
    rows: pa.Table = found.to_arrow_table()
    return rows.cast(_SPEC.schema.remove_metadata())


def _removal(path: str) -> RemoveAction:
    return RemoveAction(path, True, time.time_ns() // 1_000_000, None, {})  # noqa: FBT003


def _commit(
    table: DeltaTable, actions: Sequence[AddAction | RemoveAction], applied: Sequence[Progress]
) -> None:
    """Change the table and say how far it goes, in one step.

    Raises:
        CommitFailedError: somebody else did since the table was loaded.
    """
    table.create_write_transaction(
        list(actions),
        "append",
        delta_schema(_SPEC),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(one.query_id, one.last) for one in applied]
        ),
        post_commithook_properties=QUIETLY,
    )
    table.update_incremental()


def _counts(table: DeltaTable) -> tuple[int, int]:
    """Rows and files, by the log."""
    counts = table.get_add_actions(flatten=True).column("num_records").to_pylist()
    return sum(counts), len(counts)
