"""Columns that several tables share: AMQP headers and properties, instants."""

import json
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.ledger.schema.schemas import MESSAGES
from streaming.ledger.write.arrow_columns import build_table
from streaming.protocol.amqp_properties import PROPERTIES
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


def properties_json(properties: pa.StructArray) -> pa.Array:
    """Return a column `properties` as the JSON that `Properties` gives; null where all are null.

    Only a column with characters that JSON escapes is encoded value by value.
    """
    rows = len(properties)
    named = {name: properties.field(name) for name in PROPERTIES}
    named = {name: column for name, column in named.items() if column.null_count < rows}
    if not named:
        return pa.nulls(rows, pa.binary())
    if not any(column.null_count for column in named.values()):
        parts: list[Any] = []
        for name, column in named.items():
            before, text, after = _json_text(column)
            start = f'{parts.pop()},"{name}":{before}' if parts else f'{{"{name}":{before}'
            parts += [start, text, after]
        return pc.binary_join_element_wise(*parts[:-1], parts[-1] + "}", "").cast(pa.binary())
    members = []
    for name, column in named.items():
        before, text, after = _json_text(column)
        member = pc.binary_join_element_wise(f'"{name}":{before}', text, f"{after},", "")
        members.append(pc.fill_null(member, ""))
    inner = pc.ascii_rtrim(pc.binary_join_element_wise(*members, ""), characters=",")
    whole = pc.binary_join_element_wise("{", inner, "}", "")
    is_some = pc.greater(pc.binary_length(inner), 0)
    return pc.if_else(is_some, whole, pa.scalar(None, pa.string())).cast(pa.binary())


def _json_text(column: pa.Array) -> tuple[str, pa.Array, str]:
    """Return JSON values as text, and what stands before and after each."""
    if not pa.types.is_string(column.type):
        return "", column.cast(pa.string()), ""
    if not _is_escaped(column):
        return '"', column, '"'
    texts = [None if one is None else msgspec.json.encode(one) for one in column.to_pylist()]
    return "", pa.array(texts, pa.binary()).cast(pa.string()), ""


def _is_escaped(column: pa.Array) -> bool:
    """Whether a text may have characters that JSON escapes: quotes, backslashes, controls."""
    buffer = column.buffers()[2]
    if buffer is None:
        return False
    values = np.frombuffer(buffer, np.uint8)
    return bool(((values < ord(" ")) | (values == ord('"')) | (values == ord("\\"))).any())


def instants(at_ms: Any) -> pa.Array:
    """Return epoch milliseconds as UTC timestamps with microseconds."""
    array = at_ms if isinstance(at_ms, pa.Array) else pa.array(at_ms)
    return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
