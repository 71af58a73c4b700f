"""A data file as an entry of the Delta log, statistics included."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake.transaction import AddAction, PostCommitHookProperties, RemoveAction

from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.data_file import Bound, ColumnRange

QUIETLY: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Commit and do nothing else: checkpoints and clean-up are made off the path of a batch."""


def add_action(
    spec: TableSpec,
    *,
    path: str,
    size: int,
    rows: int,
    ranges: Mapping[str, ColumnRange],
    modified_ms: int,
    data_change: bool = True,
) -> AddAction:
    """The entry that makes a data file part of its table.

    Args:
        path: below the table's root.
        size: bytes.
        modified_ms: epoch milliseconds of its writing.
        data_change: False where the rows were in the table before.
    """
    return AddAction(path, size, {}, modified_ms, data_change, _statistics(spec, rows, ranges))


def removal(path: str, size: int, now_ms: int) -> RemoveAction:
    """The entry that takes a data file out of its table while its rows stay, in another file."""
    return RemoveAction(
        path, data_change=False, deletion_timestamp=now_ms, size=size, partition_values={}
    )


def _statistics(spec: TableSpec, rows: int, ranges: Mapping[str, ColumnRange]) -> str:
    """Delta's per-file statistics; a column that is null throughout has no bounds."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, column in ranges.items():
        if column.least is not None:
            kind = spec.schema.field(name).type
            least[name] = _literal(column.least, kind, up=False)
            greatest[name] = _literal(column.greatest, kind, up=True)
    document = {
        "numRecords": rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": {name: column.nulls for name, column in ranges.items()},
    }
    return msgspec.json.encode(document).decode()


def _literal(value: Bound, kind: pa.DataType, *, up: bool) -> Bound:
    """Delta's statistics know instants in milliseconds: round so that none falls outside."""
    if not pa.types.is_timestamp(kind) or not isinstance(value, int):
        return value
    millis = -(-value // 1000) if up else value // 1000
    instant = pa.scalar(millis, pa.timestamp("ms"))
    text: str = instant.cast(pa.string()).as_py()
    return text.replace(" ", "T") + "Z"
