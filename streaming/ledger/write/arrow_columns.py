"""Build an Arrow table from the columns of a batch, without touching single rows.

A table is described by a flat mapping of column names; a struct member is named `origin.offset`.
Missing columns are null. Four forms of a column keep wide tables cheap:

    a sequence, NumPy array or Arrow array   one value per row
    `Constant`                               the same value in every row
    `Coded`                                  few distinct values: the values, and an index per row
    `Lists`                                  arrays: all elements, and where each row's start
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topology.suggestions import did_you_mean


@dataclass(frozen=True)
class Constant:
    """One value for every row."""

    value: Any


@dataclass(frozen=True)
class Coded:
    """Few distinct values.

    Attributes:
        codes: one index into `values` per row; negative or None is null.
        values: the distinct values, as plain Python values or an Arrow array.
    """

    codes: Any
    values: Any


@dataclass(frozen=True)
class Lists:
    """One array per row.

    Attributes:
        offsets: rows + 1 numbers, ascending: the elements of row i are offsets[i]:offsets[i + 1].
        elements: a column of all elements; for arrays of structs, a mapping of their members.
        null: one bool per row, true if the row has no array; None: every row has one.
    """

    offsets: Any
    elements: "Column | Mapping[str, Column]"
    null: Any = None


Column: TypeAlias = (
    Sequence[Any] | np.ndarray[Any, Any] | pa.Array | pa.ChunkedArray | Constant | Coded | Lists
)


def build_table(schema: pa.Schema, columns: Mapping[str, Column], rows: int) -> pa.Table:
    """Build a table with the columns of a schema.

    Args:
        columns: by name, struct members as `struct.member`. A struct is null in the rows in which
            all its members are null.

    Returns:
        A table of `rows` rows. Columns given as `Coded` or `Constant` stay dictionary-encoded in
        memory; files are the same either way.

    Raises:
        ValueError: the schema does not have a name, or a column has another length.
        pyarrow.ArrowInvalid: a column's type cannot hold a value.
    """
    arrays = _members(list(schema), columns, rows, prefix="")
    fields = [
        field if field.type == array.type else field.with_type(array.type)
        for field, array in zip(schema, arrays, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _members(
    fields: list[pa.Field], columns: Mapping[str, Column], rows: int, prefix: str
) -> list[pa.Array]:
    heads = {name.partition(".")[0] for name in columns}
    known = [field.name for field in fields]
    for name in sorted(heads - set(known)):
        raise ValueError(f"no column {prefix + name!r}{did_you_mean(name, known)}")
    arrays = []
    for field in fields:
        name = field.name
        if name in columns:
            array = _array(columns[name], field.type, rows)
        elif name in heads:
            array = _struct(field.type, _inside(columns, name), rows, prefix + name + ".")
        else:
            array = pa.nulls(rows, field.type)
        if len(array) != rows:
            raise ValueError(f"column {prefix + name!r} has {len(array)} rows, not {rows}")
        arrays.append(array)
    return arrays


def _inside(columns: Mapping[str, Column], name: str) -> dict[str, Column]:
    start = f"{name}."
    return {key[len(start) :]: value for key, value in columns.items() if key.startswith(start)}


def _array(column: Column, kind: pa.DataType, rows: int) -> pa.Array:
    match column:
        case Constant(value):
            return _constant(value, kind, rows)
        case Coded(codes, values):
            return _coded(codes, values, kind)
        case Lists():
            return _lists(column, kind)
        case pa.ChunkedArray():
            return _array(column.combine_chunks(), kind, rows)
        case pa.Array() if column.type == kind:
            return column
        case pa.Array():
            return column.cast(kind)
        case _:
            return pa.array(column, kind)


def _constant(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, kind)
    if pa.types.is_nested(kind):
        return pa.repeat(pa.scalar(value, kind), rows)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([value], kind)
    )


def _coded(codes: Any, values: Any, kind: pa.DataType) -> pa.Array:
    dictionary = values if isinstance(values, pa.Array) else pa.array(values, kind)
    indices = pa.array(codes, None if isinstance(codes, np.ndarray | pa.Array) else pa.int32())
    if len(indices) and (pc.min(indices).as_py() or 0) < 0:
        indices = pc.if_else(pc.less(indices, 0), pa.scalar(None, indices.type), indices)
    if pa.types.is_nested(kind):
        return dictionary.take(indices)
    if dictionary.null_count:  # Parquet dictionaries cannot hold null
        present = dictionary.is_valid()
        numbers = pc.subtract(pc.cumulative_sum(present.cast(pa.int32())), 1)
        indices = pc.if_else(present, numbers, pa.scalar(None, pa.int32())).take(indices)
        dictionary = dictionary.drop_null()
    if indices.type != pa.int32():
        indices = indices.cast(pa.int32())
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def _lists(column: Lists, kind: pa.DataType) -> pa.Array:
    offsets = pa.array(column.offsets, pa.int32())
    count = offsets[-1].as_py()
    if isinstance(column.elements, Mapping):
        elements = _struct(kind.value_type, column.elements, count, "element.", nullable=False)
    else:
        elements = _plain(_array(column.elements, kind.value_type, count))
    mask = None if column.null is None else pa.array(column.null, pa.bool_())
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)


def _struct(
    kind: pa.DataType,
    columns: Mapping[str, Column],
    rows: int,
    prefix: str,
    *,
    nullable: bool = True,
) -> pa.Array:
    fields = list(kind)
    arrays = [_plain(array) for array in _members(fields, columns, rows, prefix)]
    mask = None
    if nullable and rows and all(array.null_count for array in arrays):
        mask = arrays[0].is_null()
        for array in arrays[1:]:
            mask = pc.and_(mask, array.is_null())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _plain(array: pa.Array) -> pa.Array:
    """Decode dictionaries: struct and list members must have their declared type."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
