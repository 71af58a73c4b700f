"""Compaction: the same rows in fewer files, while batches continue to be committed.

The rows of a table with a `sort` column are sorted again, in memory, so its files stay small.

Ten batches a second write a million small files a day, and each makes every commit and query
slower. `plan` chooses which files to compact, `compact` copies their rows and commits.

Neighbouring files are compacted when together they outweigh the next older file by half. File sizes
then double from the newest to the oldest: a row is rewritten at most about log2(size / batch)
times, and never again once its file has LARGE_BYTES, LARGE_ROWS, or half the target size.

Delta's own conflict check does not see two simultaneous rewrites of one file (deltalake 1.6: both
succeed, and the rows are doubled). A rewrite is therefore committed without retries: exactly onto
the version in which all replaced files were seen, or not at all.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import delta_schema, load_table
from streaming.ledger.write.data_file import ColumnRange, ranges
from streaming.ledger.write.log_actions import add_action, commit, removal
from streaming.ledger.write.parquet_layout import (
    COLUMN_GROUP_ROWS,
    ROW_GROUP_BYTES,
    group_rows,
    row_groups,
    writer,
)
from streaming.storage.location import Location
from streaming.storage.port import Storage

COMPACTED_PREFIX: Final = "joined-"

LARGE_BYTES: Final = 16 * 1024 * 1024
"""Files above this size are left alone: joining them costs a rewrite and saves queries little."""

LARGE_ROWS: Final = 1_000_000
"""And files of more rows, however well they compress: a rewrite costs by the row."""

SORTED_BYTES: Final = 32 * 1024 * 1024
"""The largest file of a table whose rows are sorted."""

Rest = Callable[[float], object]
"""Waits after so many seconds of work, so that others come first."""

_ATTEMPTS: Final = 50
_INPUTS_KEY: Final = b"dlx.joined"


@dataclass(frozen=True)
class SmallFile:
    """A file that may be compacted with its neighbours."""

    path: str
    size: int
    rows: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Compacted:
    """The result of one compaction: the new file, and the files it replaced."""

    path: str
    replaced: tuple[str, ...]
    rows: int
    size: int


def small_files(spec: TableSpec, files: ActiveFiles) -> list[SmallFile]:
    """The files of a table as `plan` takes them."""
    keys = np.column_stack([files.least(column) for column in spec.order])
    return [
        SmallFile(path, int(size), int(rows), tuple(int(part) for part in key))
        for path, size, rows, key in zip(files.paths, files.sizes, files.rows, keys, strict=True)
    ]


def is_large(size: int, rows: int, target_bytes: int) -> bool:
    """Whether a file of this size in bytes, and of so many rows, is left alone."""
    return size > min(target_bytes // 2, LARGE_BYTES) or rows > LARGE_ROWS


def plan(files: Sequence[SmallFile], target_bytes: int, least_files: int) -> list[list[SmallFile]]:
    """Choose which files to compact.

    Args:
        target_bytes: size of a compacted file; files that are `is_large` for it are left alone.
        least_files: the smallest number of files that is worth a rewrite.

    Returns:
        Groups of at least two neighbours, in the table's order, each of about `target_bytes` at
        most.
    """
    groups: list[list[SmallFile]] = []
    run: list[SmallFile] = []
    weight = 0
    unfinished = [file for file in files if not is_large(file.size, file.rows, target_bytes)]
    for file in sorted(unfinished, key=lambda file: (file.order, file.path), reverse=True):
        if run and file.size > 2 * weight:
            groups += _cut(run, target_bytes, least_files)
            run, weight = [], 0
        run.append(file)
        weight += file.size
    return [*groups, *_cut(run, target_bytes, least_files)]


def _cut(run: list[SmallFile], target_bytes: int, least_files: int) -> list[list[SmallFile]]:
    """Cut neighbours, newest first, into groups of the target size, oldest first."""
    groups: list[list[SmallFile]] = [[]]
    weight = 0
    for file in reversed(run if len(run) >= least_files else []):
        if weight + file.size > target_bytes:
            groups.append([])
            weight = 0
        groups[-1].append(file)
        weight += file.size
    return [group for group in groups if len(group) > 1]


def no_rest(_worked_s: float) -> None:
    """Go on at once."""


def compact(
    place: Location, spec: TableSpec, group: Sequence[SmallFile], rest: Rest = no_rest
) -> Compacted | None:
    """Replace files of a table by one file with the same rows, in order.

    Replay: the new file's name is derived from the files it replaces. A second attempt finds it
    written, and the table with or without it.

    Returns:
        None if another process replaced one of the files first; nothing is changed then.
    """
    storage = place.storage()
    paths = tuple(file.path for file in group)
    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
    path = f"{COMPACTED_PREFIX}{digest[:32]}.parquet"
    rewritten = Rewrite(storage, spec, paths, digest, rest)
    try:
        if not storage.create(path, rewritten.write):
            with storage.open(path) as file:
                rewritten.describe(file)
    except FileNotFoundError:
        if set(paths) <= set(ActiveFiles(load_table(place)).paths):
            raise
        return None
    size = storage.size(path)
    expected = sum(file.rows for file in group)
    assert size is not None, path
    assert rewritten.rows == expected, f"{path}: {rewritten.rows} rows of {expected}"
    now_ms = time.time_ns() // 1_000_000
    added = add_action(
        spec, path, size, expected, rewritten.ranges, modified_ms=now_ms, data_change=False
    )
    removed = [removal(file.path, file.size, now_ms) for file in group]
    if not replace_files(place, spec, added, removed):
        return None
    return Compacted(path, paths, rewritten.rows, size)


class Rewrite:
    """Copies the rows of files, in order, into full row groups; a few are in memory at a time.

    All are, if the table has a column to sort them by.
    """

    def __init__(
        self,
        storage: Storage,
        spec: TableSpec,
        paths: Sequence[str],
        digest: str,
        rest: Rest = no_rest,
    ) -> None:
        self._storage = storage
        self._rest = rest
        self._spec = spec
        self._paths = paths
        self._digest = digest
        self.rows = 0
        self.ranges: dict[str, ColumnRange] = {}

    def write(self, file: Any) -> None:
        """Write the new file."""
        plain = self._spec.schema.remove_metadata()
        metadata = {_INPUTS_KEY.decode(): self._digest}
        with writer(file, plain, self._spec.schema, metadata) as parquet:
            pieces = self._pieces()
            if self._spec.sort is not None:
                pieces = iter([pa.concat_tables(pieces).sort_by(self._spec.sort)])
            for group in _filled(pieces):
                self._count(group)
                parquet.write_table(group, row_group_size=COLUMN_GROUP_ROWS)

    def describe(self, file: Any) -> None:
        """Count the rows of an existing file instead of those that were written in vain."""
        self.rows, self.ranges = 0, {}
        parquet = pq.ParquetFile(file)
        found = (parquet.metadata.metadata or {}).get(_INPUTS_KEY, b"").decode()
        assert found == self._digest, f"a file compacted from other files has this name: {found}"
        for index in range(parquet.metadata.num_row_groups):
            self._count(parquet.read_row_group(index, columns=list(self._spec.stats_columns)))

    def _count(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        for name, found in ranges(self._spec, table).items():
            known = self.ranges.get(name)
            self.ranges[name] = found if known is None else _both(known, found)

    def _pieces(self) -> Iterator[pa.Table]:
        plain = self._spec.schema.remove_metadata()
        began_s = time.thread_time()
        for path in self._paths:
            with self._storage.open(path) as file:
                parquet = pq.ParquetFile(file)
                for index in range(parquet.metadata.num_row_groups):
                    piece = parquet.read_row_group(index, use_threads=False)
                    yield piece if piece.schema.equals(plain) else conformed(piece, plain)
                    now_s = time.thread_time()  # the rows of this piece are written by now
                    self._rest(now_s - began_s)
                    began_s = now_s


def conformed(piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """Adapt rows from before a column was added, or of a tool that marks columns as required."""
    for name in schema.names:
        if name not in piece.column_names:
            field = schema.field(name)
            piece = piece.append_column(field, pa.nulls(piece.num_rows, field.type))
    return piece.select(schema.names).cast(schema)


def _filled(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Row groups as full as the layout allows, from pieces of any size."""
    held: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        size += piece.nbytes
        if rows > group_rows(piece.column_names) or size > ROW_GROUP_BYTES:
            *full, rest = row_groups(pa.concat_tables(held).combine_chunks())
            yield from full
            held, rows, size = [rest], rest.num_rows, rest.nbytes
    if held:
        yield from row_groups(pa.concat_tables(held).combine_chunks())


def _both(one: ColumnRange, other: ColumnRange) -> ColumnRange:
    known: list[Any] = [one.least, one.greatest, other.least, other.greatest]
    bounds = [bound for bound in known if bound is not None]
    least, greatest = (min(bounds), max(bounds)) if bounds else (None, None)
    return ColumnRange(least, greatest, one.nulls + other.nulls)


def replace_files(
    place: Location, spec: TableSpec, added: AddAction, removed: Sequence[RemoveAction]
) -> bool:
    """Commit a rewrite; return False if one of the replaced files has left the table."""
    for _ in range(_ATTEMPTS):
        table = load_table(place)
        if not {action.path for action in removed} <= set(ActiveFiles(table).paths):
            return False
        try:
            commit_onto(table, spec, [added, *removed])
        except CommitFailedError:
            continue
        return True
    return False


def commit_onto(
    table: DeltaTable, spec: TableSpec, actions: Sequence[AddAction | RemoveAction]
) -> None:
    """Commit the version after the one that is loaded; CommitFailedError if it already exists."""
    commit(table, delta_schema(spec), actions, CommitProperties(max_commit_retries=0))
