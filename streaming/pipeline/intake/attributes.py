"""AMQP properties and headers of many publishes at once, as columns.

Each distinct text is read by one typed decode. `record_headers` reads again what that refuses: it
decides whether a record is malformed. The broker looks at few of these values (D12), so only those
make publishes differ.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.message import BROKER_HEADERS, X_DEATH
from streaming.ledger.schema.schemas import MESSAGES
from streaming.pipeline.rows.amqp_columns import properties_array, table_bytes
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES, Properties
from streaming.protocol.record_headers import MalformedRecordError, headers_of, properties_of
from topology.declarations import MAX_NAME_BYTES
from topology.values import INTEGERS, table_from_json

_UNREAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Integer = Annotated[int, msgspec.Meta(ge=INTEGERS.start, le=INTEGERS.stop - 1)]
_read_properties = msgspec.json.Decoder(Properties).decode
_read_plain_table = msgspec.json.Decoder(dict[str, str | _Integer | bool | None]).decode
_encode = msgspec.json.Encoder().encode
_PROPERTIES_TYPE: Final = MESSAGES.field("properties").type


class Attributes(NamedTuple):
    """Properties and headers, one row per publish.

    Attributes:
        properties: as the column `properties` of `messages`.
        headers: as the column `headers` of `messages`: canonical typed JSON.
        seen: the headers that the broker looks at, likewise; null if there are none.
        malformed: whether the properties or headers are not valid.
    """

    properties: pa.StructArray
    headers: pa.Array
    seen: pa.Array
    malformed: Any


def attributes_of(properties: pa.Array, headers: pa.Array, *, trusts_x_death: bool) -> Attributes:
    """Read the headers `dlx-properties` and `dlx-headers` of publishes.

    Args:
        properties, headers: JSON, or null; binary.
        trusts_x_death: whether the broker looks at `x-death` (R-DEATH-8).
    """
    columns, bad_properties = _properties(properties)
    table, seen, bad_headers = _tables(headers, trusts_x_death=trusts_x_death)
    return Attributes(columns, table, seen, bad_properties | bad_headers)


def seen_headers(text: bytes, *, trusts_x_death: bool) -> bytes | None:
    """Return those of the headers that the broker looks at; None if there are none."""
    table = table_from_json(msgspec.json.decode(text))
    seen: dict[str, Any] = {name: table[name] for name in BROKER_HEADERS if name in table}
    if not trusts_x_death:
        seen.pop(X_DEATH, None)
    return table_bytes(seen) if seen else None


def _properties(column: pa.Array) -> tuple[pa.StructArray, Any]:
    rows = len(column)
    if column.null_count == rows:
        return properties_array({}, rows), np.zeros(rows, bool)
    encoded = column.dictionary_encode()
    found, malformed = _each(encoded, _read_properties, _properties_again, Properties())
    columns: dict[str, Any] = {}
    members = zip(*map(msgspec.structs.astuple, found), strict=True)
    for name, values in zip(PROPERTIES, members, strict=True):
        if values.count(None) == len(values):
            continue
        if name in WHOLE_PROPERTIES:
            array = pa.array(values, _PROPERTIES_TYPE.field(name).type)
        else:
            array = pa.array(values, pa.string())
            lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy()
            malformed |= lengths > MAX_NAME_BYTES
        columns[name] = _taken(array, encoded.indices)
    return properties_array(columns, rows), _of_rows(malformed, encoded.indices)


def _tables(column: pa.Array, *, trusts_x_death: bool) -> tuple[pa.Array, pa.Array, Any]:
    rows = len(column)
    if column.null_count == rows:
        return pa.nulls(rows, pa.string()), pa.nulls(rows, pa.binary()), np.zeros(rows, bool)
    encoded = column.dictionary_encode()
    found, malformed = _each(encoded, _canonical, _canonical_again, b"{}")
    texts = pa.array(found, pa.binary())
    may_be_seen = pc.match_substring(texts, 'CC":')
    if trusts_x_death:
        may_be_seen = pc.or_(may_be_seen, pc.match_substring(texts, f'"{X_DEATH}":'))
    seen = pa.nulls(rows, pa.binary())
    if pc.any(may_be_seen).as_py():
        parts: list[bytes | None] = [None] * len(found)
        for number in np.flatnonzero(may_be_seen.to_numpy(zero_copy_only=False)).tolist():
            parts[number] = seen_headers(found[number], trusts_x_death=trusts_x_death)
        seen = _taken(pa.array(parts, pa.binary()), encoded.indices)
    texts = texts.view(pa.string())
    return _taken(texts, encoded.indices), seen, _of_rows(malformed, encoded.indices)


def _properties_again(text: bytes) -> Any:
    return Properties(**properties_of(text))


def _canonical(text: bytes) -> bytes:
    return _encode(_read_plain_table(text))


def _canonical_again(text: bytes) -> bytes:
    return table_bytes(headers_of(text))


def _each(
    encoded: pa.DictionaryArray,
    read: Callable[[bytes], Any],
    read_again: Callable[[bytes], Any],
    nothing: Any,
) -> tuple[list[Any], Any]:
    """Return what each distinct text says, and whether it is malformed: then it says nothing."""
    texts: list[bytes] = encoded.dictionary.to_pylist()
    malformed = np.zeros(len(texts), bool)
    try:
        return list(map(read, texts)), malformed
    except _UNREAD:
        pass
    found = []
    for number, text in enumerate(texts):
        try:
            found.append(read(text))
        except _UNREAD:
            try:
                found.append(read_again(text))
            except MalformedRecordError:
                found.append(nothing)
                malformed[number] = True
    return found, malformed


def _taken(values: pa.Array, indices: pa.Array) -> pa.Array:
    """Return the value of each row; distinct values are in the order of their first rows."""
    if len(values) == len(indices) and not indices.null_count:
        return values
    return values.take(indices)


def _of_rows(malformed: Any, indices: pa.Array) -> Any:
    if not malformed.any():
        return np.zeros(len(indices), bool)
    return np.append(malformed, False)[pc.fill_null(indices, -1).to_numpy()]
