"""Columns that several tables share: AMQP headers and properties, instants."""

import json
from typing import Any

import msgspec
import pyarrow as pa

from streaming.ledger.schema.schemas import MESSAGES
from streaming.ledger.write.arrow_columns import build_table
from topology.values import table_to_json

_FIELD = MESSAGES.field("properties")

_PLAIN_TYPES = frozenset((str, int, bool, type(None)))
_encode_any = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def headers_json(headers: dict[str, Any] | None) -> str | None:
    """Return AMQP headers as typed JSON text."""
    return None if headers is None else table_bytes(headers).decode()


def table_bytes(table: dict[str, Any]) -> bytes:
    """Return an AMQP table as typed JSON.

    Most tables hold strings and integers only, which msgspec encodes like `json`, but faster.
    """
    if _PLAIN_TYPES.issuperset(map(type, table.values())):
        return msgspec.json.encode(table)
    return _encode_any(table_to_json(table)).encode()


def properties_array(columns: dict[str, Any], rows: int) -> pa.StructArray:
    """Return a column `properties` from its members by name; null where all of them are."""
    named = {f"{_FIELD.name}.{name}": column for name, column in columns.items()}
    return build_table(pa.schema([_FIELD]), named, rows)[_FIELD.name].combine_chunks()


def without_expiration(properties: pa.ChunkedArray) -> pa.StructArray:
    """Return a column `properties` without the expiration."""
    whole = properties.combine_chunks()
    if whole.field("expiration").null_count == len(whole):
        return whole
    members = {field.name: whole.field(field.name) for field in whole.type}
    del members["expiration"]
    return properties_array(members, len(whole))


def instants(at_ms: Any) -> pa.Array:
    """Return epoch milliseconds as UTC timestamps with microseconds."""
    array = at_ms if isinstance(at_ms, pa.Array) else pa.array(at_ms)
    return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
