"""A fingerprint of the content of a table, independent of its layout in memory.

A replayed batch must write the same rows as before. Two tables have the same fingerprint exactly if
they have the same columns and rows. Chunks, dictionaries, slices and bytes beneath a null do not
matter. Columns are read as buffers, at about 0.2 us per row of `messages`.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def fingerprint(table: pa.Table) -> str:
    """The fingerprint of a table: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    digest.update(f"{table.num_rows}\n".encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"{name}\n".encode())
        _add(digest, _plain(column))
    return digest.hexdigest()


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


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
