"""Data files as entries of the Delta log, statistics included, and their commits."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
)

from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.data_file import Bound, ColumnRange

_QUIETLY: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Commit and nothing else: maintenance makes checkpoints and cleans up, off the batch path."""


def commit(
    table: DeltaTable,
    schema: Schema,
    actions: Sequence[AddAction | RemoveAction],
    properties: CommitProperties,
) -> None:
    """Commit these entries to a table."""
    table.create_write_transaction(
        list(actions),
        "append",
        schema,
        commit_properties=properties,
        post_commithook_properties=_QUIETLY,
    )


def add_action(
    spec: TableSpec,
    path: str,
    size: int,
    rows: int,
    ranges: Mapping[str, ColumnRange],
    *,
    modified_ms: int,
    data_change: bool = True,
) -> AddAction:
    """The entry that adds a data file; `data_change`: the table did not have its rows yet."""
    return AddAction(path, size, {}, modified_ms, data_change, _statistics(spec, rows, ranges))


def removal(path: str, size: int | None, now_ms: int, *, data_change: bool = False) -> RemoveAction:
    """The entry that removes a data file; `data_change`: its rows are not in another file now."""
    return RemoveAction(path, data_change, now_ms, size, partition_values={})


def _statistics(spec: TableSpec, rows: int, ranges: Mapping[str, ColumnRange]) -> str:
    """The statistics of a file in Delta's form; an entirely null column has no bounds."""
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
    """A bound as Delta writes it: instants in milliseconds, rounded outwards."""
    if not pa.types.is_timestamp(kind) or not isinstance(value, int):
        return value
    millis = -(-value // 1000) if up else value // 1000
    instant = pa.scalar(millis, pa.timestamp("ms"))
    text: str = instant.cast(pa.string()).as_py()
    return text.replace(" ", "T") + "Z"
