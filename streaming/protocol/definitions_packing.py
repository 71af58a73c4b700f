"""Definitions documents inside import commands: plain, or compressed if large.

    {"op": "import_definitions", "definitions": {...}}
    {"op": "import_definitions", "definitions_gzip": "H4sI..."}

`definitions_gzip` is the document's JSON text, compressed with gzip and encoded as base64. The
export of a large cluster shrinks to a twentieth and fits into a Kafka record.
"""

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streaming.protocol.json_input import read_json
from topology.definitions.json_object import Fields
from topology.values import json_type

PLAIN: Final = "definitions"
PACKED: Final = "definitions_gzip"

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Limit of the JSON text: a small record must not fill the reader's memory."""

MAX_SEPARATORS: Final = 8 * 1024 * 1024
"""Limit of separators (commas, colons, opening brackets): an empty array is two bytes of text but
thirty times that in memory. Definitions have at most one separator in six bytes."""

_SEPARATORS: Final = (b",", b":", b"[", b"{")
_TOO_MANY: Final = f"more than {MAX_SEPARATORS} commas, colons and opening brackets"

_LARGEST_PLAIN_BYTES: Final = 256 * 1024
"""Documents up to this size stay plain, so that they can be read in the topic."""

_GZIP_ONLY: Final = 16 + zlib.MAX_WBITS


class Written(NamedTuple):
    """The member of an import command that holds a document, and the size of its JSON text."""

    member: dict[str, Any]
    text_bytes: int


def write_definitions(document: Mapping[str, Any]) -> Written:
    """Write the member of an import command that holds a document.

    Raises:
        ValueError, TypeError: the document is too large, or is not JSON; the message says which.
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) <= _LARGEST_PLAIN_BYTES:
        return Written({PLAIN: dict(document)}, len(text))
    if len(text) > MAX_UNPACKED_BYTES:
        raise ValueError(f"the document has {len(text)} bytes, more than {MAX_UNPACKED_BYTES}")
    if _separators(text) > MAX_SEPARATORS:
        raise ValueError(f"the document holds {_TOO_MANY}")
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    return Written({PACKED: packed}, len(text))


def read_definitions(fields: Fields) -> dict[str, Any]:
    """Read the document of an import command, in either form; empty, and a problem, if invalid."""
    plain, packed = fields.value(PLAIN), fields.value(PACKED)
    if packed is None:
        if isinstance(plain, dict):
            return plain
        fields.report.problem(fields.at(PLAIN), f"expected an object, got {json_type(plain)}")
        return {}
    if plain is not None:
        fields.report.problem(
            fields.at(PACKED), f"cannot be combined with {PLAIN!r}: give only one of them"
        )
        return {}
    what = f"expected a string, got {json_type(packed)}"
    if isinstance(packed, str):
        try:
            document = _unpack(packed)
        except ValueError as error:
            what = str(error)
        else:
            if isinstance(document, dict):
                return document
            what = f"expected an object in it, got {json_type(document)}"
    fields.report.problem(fields.at(PACKED), what)
    return {}


def _unpack(packed: str) -> object:
    """Decompress and decode a document; ValueError, with a message for people, on failure."""
    try:
        data = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64: {error}") from error
    inflating = zlib.decompressobj(_GZIP_ONLY)
    try:
        text = inflating.decompress(data, MAX_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"is not gzip: {error}") from error
    if len(text) > MAX_UNPACKED_BYTES:
        raise ValueError(f"holds more than {MAX_UNPACKED_BYTES} bytes")
    if not inflating.eof:
        raise ValueError("is not gzip: it is truncated")
    if inflating.unused_data:
        raise ValueError("is not gzip: its end is followed by more data")
    if _separators(text) > MAX_SEPARATORS:
        raise ValueError(f"holds {_TOO_MANY}")
    try:
        return read_json(text)
    except ValueError as error:
        raise ValueError(f"does not hold JSON: {error}") from error


def _separators(text: bytes) -> int:
    return sum(map(text.count, _SEPARATORS))
