"""Columns that several tables share: AMQP headers and properties, instants."""

import json
from typing import Any

import msgspec
import pyarrow as pa

from streaming.ledger.write.arrow_columns import Coded
from streaming.protocol.amqp_properties import PROPERTIES
from topology.values import table_to_json

_PLAIN_TYPES = frozenset((str, int, bool, type(None)))


def headers_json(headers: dict[str, Any] | None) -> str | None:
    """Return AMQP headers as typed JSON text."""
    return None if headers is None else table_bytes(headers).decode()


def table_bytes(table: dict[str, Any]) -> bytes:
    """Return an AMQP table as typed JSON.

    Most tables hold strings and integers only, which msgspec encodes like `json`, but faster.
    """
    if _PLAIN_TYPES.issuperset(map(type, table.values())):
        return msgspec.json.encode(table)
    return json.dumps(table_to_json(table), ensure_ascii=False, separators=(",", ":")).encode()


def properties_columns(distinct: list[dict[str, Any]], codes: Any) -> dict[str, Any]:
    """Return the columns of the `properties` struct; `codes` index `distinct` for each row."""
    present = set().union(*distinct)
    return {
        f"properties.{name}": Coded(codes, [properties.get(name) for properties in distinct])
        for name in PROPERTIES
        if name in present
    }


def instants(at_ms: Any) -> pa.Array:
    """Return epoch milliseconds as UTC timestamps with microseconds."""
    array = at_ms if isinstance(at_ms, pa.Array) else pa.array(at_ms)
    return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
