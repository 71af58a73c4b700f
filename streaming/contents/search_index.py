"""Index the values of `[tables] search`: the Delta table `search_keys`, off the batch path.

    messages of committed batches after the last indexed one
        --> values of the chosen paths --> rows (key, path, message), sorted by key
                                                |
          one commit: the new files, and the last indexed batch <--+

Paths that are set later, or no longer, hold from the next batch that is indexed on. A row of kind
`search` in `snapshots` says so before any message is indexed with them.

Replay: as for `queue_contents`. The commit records the last indexed batch (a Delta transaction
identifier), so an update that crashes before has no effect, and one that crashes after is not
repeated. Vacuum removes files that were never committed.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.contents.replacement import replace_rows
from streaming.contents.search_rows import forget
from streaming.ledger.read.message_search import KEY
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import Retention, load_table, open_table, table_exists
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.data_file import DataFile, ranges
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.ledger.write.table_writer import TableWriter
from streaming.protocol.search_keys import SearchPaths, key_of
from streaming.queries.as_of.snapshots import SNAPSHOTS
from streaming.queries.duckdb_tables import Tables
from streaming.queries.job_totals import last_batches
from streaming.queries.search_index import SEARCH_KEYS, SEARCH_KIND, indexed_paths
from streaming.storage.location import Location

FILE_KEYS: Final = 1_000_000
"""The most rows of a new file."""

UPDATE_ROWS: Final = 500_000
"""An update ends after about so many messages; the next one goes on."""

_SPEC: Final = TABLES[SEARCH_KEYS]
_MESSAGES: Final = "messages"
_COLUMNS: Final = ("batch_id", "vhost", *KEY)
_READ: Final = (*_COLUMNS, "properties", "headers", "body")


class Indexed(NamedTuple):
    """The result of an update.

    Attributes:
        batch_id: the last indexed batch.
        keys: values that were added.
        is_behind: there are later batches.
    """

    batch_id: int
    keys: int
    is_behind: bool


class SearchIndexer:
    """Keeps `search_keys` up to date. Use it from one thread at a time.

    Args:
        paths: as in `[tables] search`; none: a table of earlier paths stays as it is.
        after: the last batch when the job started with these paths; -1: it had none.
    """

    def __init__(
        self,
        root: Location,
        paths: Sequence[str],
        after: int = -1,
        retention: Retention | None = None,
    ) -> None:
        self._after = after
        self._root = root
        self._paths = SearchPaths(paths)
        self._retention = retention
        self._writer: TableWriter | None = None
        self._is_announced = False

    def update(self, query_id: str) -> Indexed | None:
        """Index the batches that are not indexed yet; None: there were none, or no paths.

        Args:
            query_id: the query that writes the batches.

        Raises:
            CommitError: other processes kept changing the table.
        """
        if not self._paths.names and (self._is_announced or not table_exists(self._place)):
            return None
        with Tables(self._root.url, self._root.options, threads=1) as tables:
            has_events = tables.has("events")
            last = tables.table("events").transaction_version(query_id) if has_events else None
            if last is None:
                return None
            if self._writer is None:
                self._writer = TableWriter(self._root, SEARCH_KEYS, self._retention)
            done = self._writer.last_batch(query_id)
            if not self._is_announced:
                done = self._announce(tables, query_id, self._after if done is None else done)
        if not self._paths.names or done is None or done >= last:
            return None
        return self._index(self._writer, query_id, done, last)

    @property
    def _place(self) -> Location:
        return self._root / SEARCH_KEYS

    def _announce(self, tables: Tables, query_id: str, done: int) -> int:
        """Say which paths are indexed after a batch, if that has changed; return the batch.

        Without any, nothing was indexed, so paths that are set again begin where the job did.
        """
        assert self._writer is not None
        known = indexed_paths(tables)
        if tuple(one.path for one in known) != self._paths.names:
            done = done if known else max(done, self._after)
            at = None
            if done >= 0:  # the last batch is a little later: what is claimed is certain
                at = datetime.fromtimestamp(last_batches(tables, 1)[0].at_s, UTC)
            row = {
                "query_id": query_id,
                "batch_id": done,
                "kind": SEARCH_KIND,
                "at": at,
                "detail": msgspec.json.encode({"paths": self._paths.names}).decode(),
            }
            spec = TABLES[SNAPSHOTS]
            rows = pa.Table.from_pylist([row], spec.schema.remove_metadata())
            open_table(self._root, SNAPSHOTS, self._retention)
            replace_rows(self._root / SNAPSHOTS, spec, [], rows, is_new=True)
        self._is_announced = True
        if done >= 0:
            self._writer.commit_batch(query_id, done, [], even_empty=True)
        return done

    def _index(self, writer: TableWriter, query_id: str, done: int, last: int) -> Indexed:
        files = ActiveFiles(load_table(self._root / _MESSAGES))
        chosen = np.flatnonzero(files.greatest("batch_id") > done)
        least = np.maximum(files.least("batch_id")[chosen], done + 1)
        order = np.argsort(least, kind="stable")
        end = last
        rows = np.cumsum(files.rows[chosen][order])
        full = np.flatnonzero(rows >= UPDATE_ROWS)
        if len(full):  # up to where a later file begins
            later = least[order][full[0] + 1 :]
            beyond = later[later > least[order][full[0]]]
            end = min(last, int(beyond[0]) - 1) if len(beyond) else last
        paths = [
            files.paths[index]
            for index, first in zip(chosen[order], least[order], strict=True)
            if first <= end
        ]
        written: list[DataFile] = []
        for number, table in enumerate(self._tables(query_id, paths, done, end)):
            written.append(self._write(query_id, done, end, number, table))
        writer.commit_batch(query_id, end, written, even_empty=True)
        if not set(paths) <= set(ActiveFiles(load_table(self._root / _MESSAGES)).paths):
            self._forget_erased(done)
        return Indexed(end, sum(file.rows for file in written), end < last)

    def _forget_erased(self, done: int) -> None:
        """Remove the values of messages that were erased, or left the table, as they were read.

        Whoever removes messages looks here afterwards, and saw nothing yet.
        """
        with Tables(self._root.url, self._root.options, threads=1) as tables:
            columns = ["batch_id", *KEY, "body_bytes", "body"]
            files = tables.files(_MESSAGES, {"batch_id": done})
            tables.view(_MESSAGES, files=files, columns=columns)
            view = tables.view(SEARCH_KEYS, columns=["batch_id", *KEY])
            forget(
                self._root,
                tables,
                f"""
                SELECT (topic_number, "partition", "offset") FROM {view} AS found
                WHERE batch_id > {done} AND NOT EXISTS (FROM {_MESSAGES} AS one
                    WHERE one.topic_number = found.topic_number
                    AND one."partition" = found."partition" AND one."offset" = found."offset"
                    AND (one.body IS NOT NULL OR one.body_bytes = 0))
                """,
            )

    def _tables(
        self, query_id: str, paths: Sequence[str], done: int, end: int
    ) -> Iterator[pa.Table]:
        """The rows of a new file each, sorted by key."""
        held: list[pa.Table] = []
        rows = 0
        for path in paths:
            for piece in self._pieces(path, done, end):
                table = self._keys_of(query_id, piece)
                held.append(table)
                rows += table.num_rows
                if rows >= FILE_KEYS:
                    yield _sorted(held)
                    held, rows = [], 0
        if rows:
            yield _sorted(held)

    def _pieces(self, path: str, done: int, end: int) -> Iterator[pa.Table]:
        with (self._root / _MESSAGES).storage().open(path) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.metadata.num_row_groups):
                piece = parquet.read_row_group(group, columns=list(_READ), use_threads=False)
                batches = piece["batch_id"].to_numpy()
                chosen = (batches > done) & (batches <= end)
                if chosen.any():
                    yield piece if chosen.all() else piece.filter(pa.array(chosen))

    def _keys_of(self, query_id: str, rows: pa.Table) -> pa.Table:
        values = self._paths.values
        numbers: list[int] = []
        names: list[int] = []
        keys: list[int] = []
        codes = {path: code for code, path in enumerate(self._paths.names)}
        columns = (rows[name].to_pylist() for name in ("body", "headers", "properties"))
        for number, message in enumerate(zip(*columns, strict=True)):
            for path, value in values(*message):
                numbers.append(number)
                names.append(codes[path])
                keys.append(key_of(value))
        found = rows.select(_COLUMNS).take(pa.array(numbers, pa.int64()))
        built: dict[str, Any] = {name: found[name].combine_chunks() for name in _COLUMNS}
        built["query_id"] = Constant(query_id)
        built["path"] = Coded(np.array(names, np.int32), list(self._paths.names))
        built["key"] = np.array(keys, np.int64)
        return build_table(_SPEC.schema, built, len(numbers))

    def _write(self, query_id: str, done: int, end: int, number: int, table: pa.Table) -> DataFile:
        digest = hashlib.sha256(f"{query_id} {done} {end} {number} {time.time_ns()}".encode())
        path = f"keys-{digest.hexdigest()[:32]}.parquet"
        storage = self._place.storage()
        storage.create(path, write_row_groups(table, _SPEC.schema, {"dlx.table": _SPEC.name}))
        size = storage.size(path)
        assert size is not None, path
        return DataFile(_SPEC.name, path, size, table.num_rows, "", ranges(_SPEC, table))


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    assert _SPEC.sort is not None
    return pa.concat_tables(tables).unify_dictionaries().sort_by(_SPEC.sort)
