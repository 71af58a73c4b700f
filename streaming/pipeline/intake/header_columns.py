"""Kafka headers of a whole batch as columns.

Spark passes headers as one list per record. Its own functions on lists and maps are interpreted and
took 35 us per record; this takes 1 us.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.kafka_headers import REPLACED
from streaming.pipeline.rows.bounds import HEADER_BYTES
from streaming.protocol.record_headers import INBOUND, OP, OURS


def column_of(header: str) -> str:
    """The column of one of our headers."""
    return header.replace("-", "_")


HEADER_COLUMNS = tuple(map(column_of, INBOUND))
FOREIGN = "foreign"


def with_header_columns(
    batch: pa.RecordBatch, *, is_mapped: bool, names: Sequence[str] = INBOUND
) -> pa.RecordBatch:
    """Add columns for our headers, the publisher's own headers, and the size of all.

    Args:
        names: our headers.
        batch: records of one topic; its column `headers` is a list of (key, value), or null.
        is_mapped: the topic is mapped: its records carry none of our headers, all are foreign.

    Returns:
        The batch with a binary column for each header (HEADER_COLUMNS by default; a repeated
        header has its last value), FOREIGN (a list, or null) and HEADER_BYTES (keys and values).
    """
    rows = batch.num_rows
    headers = batch["headers"]
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    row_of = np.repeat(np.arange(rows), lengths)
    elements = headers.flatten()
    keys, values = elements.flatten()
    sizes = pc.add(pc.binary_length(keys), pc.fill_null(pc.binary_length(values), 0)).to_numpy()
    encoded = keys.dictionary_encode()
    found_names: list[str] = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[HEADER_BYTES] = pa.array(np.bincount(row_of, sizes, rows).astype(np.int64))
    for header in names:
        column = column_of(header)
        if is_mapped or header not in found_names:
            columns[column] = pa.nulls(rows, pa.binary())
        else:
            found = np.flatnonzero(codes == found_names.index(header))
            # A record with the header dlx-op is a command, even if the header has no value.
            held = pc.fill_null(values, b"") if header == OP else values
            columns[column] = _last_values(held, found, row_of[found], rows)
    if is_mapped:
        columns[FOREIGN] = headers
    else:
        foreign = ~np.array([name.startswith(OURS) for name in found_names], bool)[codes]
        columns[FOREIGN] = _lists(elements, foreign, row_of, rows, headers.type)
    return pa.record_batch(columns)


def unreadable_names(rows: pa.RecordBatch) -> Any:
    """Whether each record has a name of a header that is not UTF-8: fronts cannot read those."""
    found = np.zeros(rows.num_rows, bool)
    headers = rows["headers"]
    names = headers.flatten().field(0).dictionary_encode()
    odd = np.array([REPLACED in name for name in names.dictionary.to_pylist()], bool)
    if odd.any():
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
        row_of = np.repeat(np.arange(rows.num_rows), lengths)
        found[row_of[odd[names.indices.to_numpy()]]] = True
    return found


def _last_values(values: pa.Array, found: Any, row_of: Any, rows: int) -> pa.Array:
    """Return the last value of a header in each row; null in rows without it."""
    if len(found) == rows == len(values) and np.array_equal(row_of, np.arange(rows)):
        return values  # the only header, exactly once in each row
    places = np.full(rows, -1)
    places[row_of] = found  # ascending: the last one stays
    return values.take(pa.array(places, mask=places < 0))


def _lists(elements: pa.Array, chosen: Any, row_of: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """Return the chosen headers as one list per row; null for rows without any."""
    if not chosen.any():
        return pa.nulls(rows, kind)
    counts = np.bincount(row_of[chosen], minlength=rows)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), elements.filter(pa.array(chosen)), type=kind, mask=pa.array(counts == 0)
    )
