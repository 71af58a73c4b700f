"""Columns that several tables share: AMQP headers and properties, instants."""

import json
from typing import Any

import pyarrow as pa

from streaming.ledger.write.arrow_columns import Coded
from streaming.protocol.amqp_properties import PROPERTIES
from topology.values import table_to_json


def headers_json(headers: dict[str, Any] | None) -> str | None:
    """Return AMQP headers as typed JSON text."""
    if headers is None:
        return None
    return json.dumps(table_to_json(headers), ensure_ascii=False, separators=(",", ":"))


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
