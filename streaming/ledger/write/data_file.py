"""Data files: rows of a batch in one Parquet file, with a name that only this batch can give it.

Replay: writing the same rows again finds the name taken, verifies that the file holds exactly these
rows, and keeps it. A file is never replaced.
"""

import hashlib
import re
from collections.abc import Collection
from typing import Any, Final, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streaming.ledger.errors import DataFileConflictError
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.storage.port import Storage

FINGERPRINT_KEY: Final = "dlx.fingerprint"

CODED_KEY: Final = "dlx.coded"
"""Names the columns that the fingerprint reads as codes."""

_NAME: Final = re.compile(
    r"(?P<query_id>[A-Za-z0-9-]{1,64})\.(?P<batch_id>\d{12,19})\.(?P<stage>[a-z][a-z0-9_]{0,31})"
    r"\.(?P<source>[a-z0-9-]{1,32})\.(?P<first>\d{20})\.parquet"
)
DRIVER: Final = "driver"
"""The source of files that the driver writes."""

LOOKUP_STAGE: Final = "letters"
"""The stage of files that name the version of `messages` in which a batch looks letters up."""

_MAX_COLUMN_BYTES: Final = 2**31 - 1
# Another driver may have committed the batch, compacted its files and vacuumed them meanwhile.
_TRIES: Final = 3

Bound = int | str | None


class DataFileName(msgspec.Struct, frozen=True):
    """The parts of a data file's name; they follow from its rows, never from the task (D18).

    Spark may give the records of a batch to other tasks when it runs again.

    Attributes:
        query_id: the checkpoint's Spark query id.
        stage: the writer among those of the batch; lower case.
        source: what the rows come from: `source_of_partition`, `source_of_shard`, or DRIVER.
        first: the first row's offset or seq, since there may be several files of a source.
    """

    query_id: str
    batch_id: int
    stage: str
    source: str
    first: int = 0

    def __str__(self) -> str:
        name = (  # names of one query sort in the order of batches
            f"{self.query_id}.{self.batch_id:012}.{self.stage}.{self.source}"
            f".{self.first:020}.parquet"
        )
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{self!r} is not a valid file name")
        return name

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The parts of a file name, or None if this class did not make it."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        batch_id, first = map(int, found.group("batch_id", "first"))
        return cls(found["query_id"], batch_id, found["stage"], found["source"], first)


def source_of_partition(topic_number: int, partition: int) -> str:
    """The source of rows that are records of one Kafka partition."""
    return f"t{topic_number}-p{partition}"


def source_of_shard(key: int) -> str:
    """The source of rows of one shard, known by its grouping key."""
    return f"s{key}"


class ColumnRange(msgspec.Struct, frozen=True, array_like=True):
    """The smallest and largest value of a column in a file, and its number of nulls.

    Instants are epoch microseconds. Both bounds are None if every row is null.
    """

    least: Bound
    greatest: Bound
    nulls: int


class DataFile(msgspec.Struct, frozen=True):
    """A published data file: everything the driver needs to commit it. Small; pickles; JSON."""

    table: str
    path: str
    size: int
    rows: int
    fingerprint: str
    ranges: dict[str, ColumnRange]


def write_data_file(
    storage: Storage, spec: TableSpec, name: DataFileName, table: pa.Table
) -> DataFile | None:
    """Publish rows as a data file; it becomes part of the table when it is committed.

    Replay: writes nothing; the existing file is verified and described again.

    Args:
        table: as `build_table` makes it; under 2 GiB of bodies.

    Returns:
        The file to commit, or None if there are no rows.

    Raises:
        DataFileConflictError: a file of this name holds other content.
        ValueError: columns or types differ from the table's.
    """
    if not table.num_rows:
        return None
    _check_columns(spec, table)
    path = str(name)
    coded = coded_columns(table)
    held = fingerprint(table, coded)
    metadata = {
        FINGERPRINT_KEY: held,
        CODED_KEY: ",".join(coded),
        "dlx.table": spec.name,
        "dlx.name": path,
        "dlx.rows": str(table.num_rows),
    }
    write = write_row_groups(table, spec.schema, metadata)
    for _ in range(_TRIES):
        try:
            if not storage.create(path, write):
                _verify(storage, spec, path, table)
        except FileNotFoundError:
            continue
        size = storage.size(path)
        if size is not None:
            return DataFile(spec.name, path, size, table.num_rows, held, ranges(spec, table))
    raise DataFileConflictError(
        f"{spec.name}/{path} was written and then removed by another program; stop the program "
        "that removes files of running batches, then start again"
    )


def _verify(storage: Storage, spec: TableSpec, path: str, table: pa.Table) -> None:
    """Check that a file holds the expected rows: first by its footer, then row by row.

    It reads the whole file. Only replayed batches have files to verify.
    """
    problem = _difference(storage, spec, path, table)
    if problem is not None:
        raise DataFileConflictError(
            f"{spec.name}/{path} already exists and {problem}; dlx never replaces a batch's file. "
            "If nothing else writes to this folder, the batch was replayed with other code or "
            "another configuration, or the file was changed: restore it, or move it away to have "
            "it written again"
        )


def _difference(storage: Storage, spec: TableSpec, path: str, table: pa.Table) -> str | None:
    rows = table.num_rows
    try:
        with storage.open(path) as file:
            parquet = pq.ParquetFile(file)
            if parquet.metadata.num_rows != rows:
                return f"has {parquet.metadata.num_rows} rows where the batch writes {rows}"
            if not _same_columns(parquet.schema_arrow, spec.schema):
                return "has other columns than the table"
            footer = {
                key: value.decode(errors="replace")
                for key, value in (parquet.metadata.metadata or {}).items()
            }
            coded = footer.get(CODED_KEY.encode(), "").split(",")
            held = fingerprint(table, coded)
            claimed = footer.get(FINGERPRINT_KEY.encode(), "none")
            if claimed != held:
                return f"claims fingerprint {claimed}, not {held}"
            found = fingerprint(parquet.read(), coded)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        return f"is not a complete Parquet file ({error})"
    return None if found == held else f"holds rows with fingerprint {found}, not {held}"


def _check_columns(spec: TableSpec, table: pa.Table) -> None:
    """Refuse rows that could not be read back as the spec says."""
    if not _same_columns(table.schema, spec.schema):
        raise ValueError(f"not the columns of {spec.name}: {table.schema.to_string()}")
    for field in spec.schema:
        column = table[field.name]
        if not field.nullable and column.null_count:
            raise ValueError(f"{spec.name}.{field.name} is null in {column.null_count} rows")
        if column.nbytes > _MAX_COLUMN_BYTES:
            raise ValueError(f"{spec.name}.{field.name} exceeds 2 GiB: write several files")


def _same_columns(found: pa.Schema, wanted: pa.Schema) -> bool:
    return found.names == wanted.names and all(
        _stored_type(field.type) == _stored_type(wanted.field(field.name).type) for field in found
    )


def _stored_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def ranges(spec: TableSpec, table: pa.Table) -> dict[str, ColumnRange]:
    """The range of each statistics column."""
    return {name: _range(table[name]) for name in spec.stats_columns}


def _range(column: pa.ChunkedArray) -> ColumnRange:
    nulls = column.null_count
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([_used_values(chunk) for chunk in column.chunks])
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    bounds: Any = pc.min_max(column)
    return ColumnRange(bounds["min"].as_py(), bounds["max"].as_py(), nulls)


def _used_values(chunk: pa.DictionaryArray) -> pa.Array:
    return chunk.dictionary.take(chunk.indices.unique().drop_null())


def coded_columns(table: pa.Table) -> list[str]:
    """The columns that the fingerprint of new files reads as codes: those that repeat values."""
    return [field.name for field in table.schema if pa.types.is_dictionary(field.type)]


def fingerprint(table: pa.Table, coded: Collection[str] = ()) -> str:
    """The fingerprint of a table's content: 64 hexadecimal digits.

    Two tables have the same one exactly if they have the same columns and rows. Chunks,
    dictionaries, slices and bytes beneath a null do not matter. Columns are read as buffers, at
    about 0.2 us per row of `messages`.

    Args:
        coded: columns with few distinct values, read as those values and a code per row: that is
            less to read. Tables are comparable if the same columns are coded.
    """
    digest = hashlib.sha256()
    digest.update(f"{table.num_rows}\n".encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"{name}\n".encode())
        if name in coded:
            _add_codes(digest, column)
        else:
            _add(digest, _plain(column))
    return digest.hexdigest()


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def _add_codes(digest: Any, column: pa.ChunkedArray) -> None:
    """Add the distinct values in order of appearance, then the code of each row; -1 is null.

    Dictionaries have no null: Parquet could not store it.
    """
    if pa.types.is_dictionary(column.type):
        array = column.unify_dictionaries().combine_chunks()
        values, indices = array.dictionary, array.indices
        if len(values) > 1:
            distinct = values.dictionary_encode()
            found = distinct.indices.take(indices).dictionary_encode()
            values, indices = distinct.dictionary.take(found.dictionary), found.indices
    else:
        array = column.combine_chunks().dictionary_encode()
        values, indices = array.dictionary, array.indices
    if indices.null_count == len(indices):
        values = values.slice(0, 0)
    _add(digest, values)
    if len(values) > 1 or indices.null_count:
        codes = pc.fill_null(indices, -1).to_numpy()
        width = np.int8 if len(values) <= np.iinfo(np.int8).max else np.int32
        digest.update(np.ascontiguousarray(codes.astype(width)).data)


def _add(digest: Any, array: pa.Array) -> None:
    """Add an array: its type, its nulls, then the values of the other rows."""
    kind = array.type
    digest.update(f"{_kind_name(kind)} {array.null_count}\n".encode())
    if array.null_count:
        digest.update(np.packbits(_numpy(array.is_null())).data)
    if array.null_count == len(array):
        return
    if pa.types.is_struct(kind):
        members = array.flatten() if array.null_count == 0 else array.drop_null().flatten()
        for field, member in zip(kind, members, strict=True):
            digest.update(f".{field.name}\n".encode())
            _add(digest, member)
        return
    if array.null_count:
        array = array.drop_null()
    if pa.types.is_list(kind):
        digest.update(_numpy(array.value_lengths()).data)
        _add(digest, array.flatten())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        digest.update(_numpy(pc.binary_length(array)).data)
        _add_bytes(digest, array)
    elif pa.types.is_boolean(kind):
        digest.update(np.packbits(_numpy(array)).data)
    else:
        width = kind.bit_width // 8
        values = array.buffers()[1]
        start = array.offset * width
        digest.update(memoryview(values)[start : start + len(array) * width])


def _add_bytes(digest: Any, array: pa.Array) -> None:
    _, offsets, values = array.buffers()
    if values is None:  # nothing but empty values
        return
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    digest.update(memoryview(values)[int(bounds[0]) : int(bounds[-1])])


def _numpy(array: pa.Array) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _kind_name(kind: pa.DataType) -> str:
    """The name of a type, without the names and nullability of nested fields."""
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind):
        return "list"
    return str(kind)
