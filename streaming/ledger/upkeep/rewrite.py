"""Copy the rows of several files into one, and replace those files in the table.

Delta's own conflict check does not see two simultaneous rewrites of one file (deltalake 1.6: both
succeed, and the rows are doubled). A rewrite is therefore committed without retries: exactly onto
the version in which all replaced files were seen, or not at all.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import delta_schema, load_table
from streaming.ledger.storage import Place, Storage
from streaming.ledger.write.data_file import ColumnRange, ranges
from streaming.ledger.write.log_actions import commit
from streaming.ledger.write.parquet_layout import (
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    row_groups,
    writer,
)

_ATTEMPTS: Final = 50
_INPUTS_KEY: Final = b"dlx.joined"


class Rewrite:
    """Copies the rows of files, in order, into full row groups; a few are in memory at a time."""

    def __init__(
        self, storage: Storage, spec: TableSpec, paths: Sequence[str], digest: str
    ) -> None:
        self._storage = storage
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
            for group in _filled(self._pieces()):
                self._count(group)
                parquet.write_table(group, row_group_size=ROW_GROUP_ROWS)

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
        for path in self._paths:
            with self._storage.open(path) as file:
                parquet = pq.ParquetFile(file)
                for index in range(parquet.metadata.num_row_groups):
                    piece = parquet.read_row_group(index, use_threads=False)
                    yield piece if piece.schema.equals(plain) else _conformed(piece, plain)


def _conformed(piece: pa.Table, schema: pa.Schema) -> pa.Table:
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
        if rows > ROW_GROUP_ROWS or size > ROW_GROUP_BYTES:
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
    place: Place, spec: TableSpec, added: AddAction, removed: Sequence[RemoveAction]
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
