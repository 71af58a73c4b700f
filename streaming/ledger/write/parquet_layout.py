"""The layout of data files: compression, encodings, and row groups that are cheap to read.

Looking up a body in `messages` reads its whole row group, so a row group is limited in bytes, and
there in rows too. Other tables are read by column, and larger groups are cheaper. Batches and
compaction write the same layout.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP_ROWS: Final = 10_000
"""Of tables whose rows are looked up one by one."""

COLUMN_GROUP_ROWS: Final = 65_536
"""Of all other tables."""

ROW_GROUP_BYTES: Final = 8 * 1024 * 1024

_WIDE: Final = frozenset({"body", "record_key", "record_value", "headers", "detail"})
"""Columns whose values rarely repeat: dictionaries and statistics would only cost."""

_UNIQUE: Final = frozenset({"properties.message_id", "properties.correlation_id"})
"""Short values that rarely repeat: dictionaries would only cost."""


def group_rows(columns: Sequence[str]) -> int:
    """The most rows of a row group of a table with these columns."""
    return ROW_GROUP_ROWS if "record_key" in columns else COLUMN_GROUP_ROWS


def row_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Cut a table into row groups of at most `group_rows` rows and about ROW_GROUP_BYTES.

    A larger row gets a group of its own.
    """
    most = group_rows(table.column_names)
    for first in range(0, table.num_rows, most):
        chunk = table.slice(first, most)
        ends = np.cumsum(_wide_bytes(chunk))
        start = 0
        while start < chunk.num_rows:
            before = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, before + ROW_GROUP_BYTES, side="right"))
            end = max(end, start + 1)
            yield chunk.slice(start, end - start)
            start = end


def _wide_bytes(table: pa.Table) -> np.ndarray[Any, Any]:
    total = np.zeros(table.num_rows, np.int64)
    for name in table.column_names:
        if name in _WIDE:
            column = table[name]
            if not pa.types.is_dictionary(column.type):
                total += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return total


def writer(
    file: Any, schema: pa.Schema, table_schema: pa.Schema, metadata: Mapping[str, str]
) -> pq.ParquetWriter:
    """A Parquet writer for row groups.

    Args:
        file: opened for writing; the caller closes it.
        schema: schema of the row groups; columns may be dictionary-encoded.
    """
    leaves = list(_leaves(table_schema))
    parquet = pq.ParquetWriter(
        file,
        schema.remove_metadata(),
        version="2.6",
        compression="zstd",
        compression_level=1,  # 0.3 us a row of 200 B; level 3 costs up to three times as much
        use_dictionary=[path for path, kind in leaves if _repeats(path, kind)],
        column_encoding={
            path: "DELTA_BINARY_PACKED"  # mostly ascending numbers: a third smaller, and faster
            for path, kind in leaves
            if pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
        },
        write_statistics=[path for path, _ in leaves if _root(path) not in _WIDE],
        store_schema=False,
    )
    parquet.add_key_value_metadata(dict(metadata))
    return parquet


def write_row_groups(
    table: pa.Table, table_schema: pa.Schema, metadata: Mapping[str, str]
) -> Callable[[Any], None]:
    """A function for `Storage.create` that writes the table to the file it is given."""

    def write(file: Any) -> None:
        with writer(file, table.schema, table_schema, metadata) as parquet:
            for group in row_groups(table):
                parquet.write_table(group, row_group_size=COLUMN_GROUP_ROWS)

    return write


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The Parquet path and type of each leaf column of a schema."""
    for field in schema:
        yield from _below(field.name, field.type)


def _below(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _below(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _below(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def _repeats(path: str, kind: pa.DataType) -> bool:
    if _root(path) in _WIDE or path in _UNIQUE:
        return False
    return bool(pa.types.is_string(kind) or pa.types.is_int32(kind) or path == "envelope")


def _root(path: str) -> str:
    return path.partition(".")[0]
