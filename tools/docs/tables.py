"""Descriptions of the tables, rows and columns for the documentation."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from streaming.ledger.schema.schemas import COMMENT, TABLES

_ORDER: Final = (
    *("messages", "events", "dead_letters", "queue_contents", "quarantine"),
    *("snapshots", "snapshot_contents", "search_keys"),
)
_SPARK_NAMES: Final = {"int32": "int", "int64": "bigint", "bool": "boolean"}


class ColumnReference(NamedTuple):
    """A column: its name, its type as Spark SQL calls it, and its description."""

    name: str
    type: str
    description: str


class TableReference(NamedTuple):
    """A table: its name, what a row is, the columns of its key, and all columns."""

    name: str
    row: str
    key: tuple[str, ...]
    columns: tuple[ColumnReference, ...]


def reference() -> Iterator[TableReference]:
    """Describe every table."""
    for name in _ORDER:
        spec = TABLES[name]
        columns = tuple(
            ColumnReference(field.name, _type_name(field.type), field.metadata[COMMENT].decode())
            for field in spec.schema
        )
        yield TableReference(name, spec.row, spec.key, columns)


def _type_name(kind: pa.DataType) -> str:
    """A type for people: Spark's name of it, nested members by name."""
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(f"`{member.name}`" for member in kind)
    if pa.types.is_list(kind):
        return f"array of {_type_name(kind.value_type)}"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return _SPARK_NAMES.get(str(kind), str(kind))
