"""A definitions document inside a command: as it is, or, where it is large, packed.

    {"op": "import_definitions", "definitions": {...}}
    {"op": "import_definitions", "definitions_gzip": "H4sI..."}

`definitions_gzip` is the base64 of the gzip of the document's JSON text. The export of a large
cluster shrinks to a twentieth that way, and fits into a Kafka record.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streaming.protocol.bounded_json import read_json
from topology.values import json_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.definitions.json_object import Fields

PLAIN: Final = "definitions"
PACKED: Final = "definitions_gzip"

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Of the JSON text: a small record must not fill the memory of whoever unpacks it."""

MAX_UNPACKED_MARKS: Final = 8 * 1024 * 1024
"""Of the marks that part its values, commas, colons and opening brackets: an empty array is two
bytes of text and thirty times that in memory. Definitions have one in six bytes or fewer."""

_MARKS: Final = (b",", b":", b"[", b"{")
_TOO_MANY: Final = f"more than {MAX_UNPACKED_MARKS} commas, colons and opening brackets"

_LARGEST_PLAIN_BYTES: Final = 256 * 1024
"""A document up to this size goes as it is: it can be read in the log."""

_GZIP_ONLY: Final = 16 + zlib.MAX_WBITS


class Written(NamedTuple):
    """A document as a member of an import command, and the bytes of its JSON text."""

    member: dict[str, Any]
    text_bytes: int


def write_definitions(document: Mapping[str, Any]) -> Written:
    """The member of an import command that holds a document.

    Raises:
        ValueError, TypeError: the document is larger than an import may be, or no JSON; says so.
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) <= _LARGEST_PLAIN_BYTES:
        return Written({PLAIN: dict(document)}, len(text))
    if len(text) > MAX_UNPACKED_BYTES:
        raise ValueError(f"the document has {len(text)} bytes, more than {MAX_UNPACKED_BYTES}")
    if _marks(text) > MAX_UNPACKED_MARKS:
        raise ValueError(f"the document holds {_TOO_MANY}")
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    return Written({PACKED: packed}, len(text))


def read_definitions(fields: Fields) -> dict[str, Any]:
    """The document of an import command, in either form; empty, and a problem, if it has none."""
    plain, packed = fields.value(PLAIN), fields.value(PACKED)
    if packed is None:
        if isinstance(plain, dict):
            return plain
        fields.report.problem(fields.at(PLAIN), f"expected an object, got {json_type(plain)}")
        return {}
    if plain is not None:
        fields.report.problem(fields.at(PACKED), f"stands beside {PLAIN!r}: only one may be given")
        return {}
    what = f"expected a string, got {json_type(packed)}"
    if isinstance(packed, str):
        try:
            document = _unpacked(packed)
        except ValueError as error:
            what = str(error)
        else:
            if isinstance(document, dict):
                return document
            what = f"expected an object in it, got {json_type(document)}"
    fields.report.problem(fields.at(PACKED), what)
    return {}


def _unpacked(packed: str) -> object:
    """What was packed; ValueError, in words, if that is not to be had."""
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
        raise ValueError("is not gzip: it ends too early")
    if inflating.unused_data:
        raise ValueError("is not gzip: something follows its end")
    if _marks(text) > MAX_UNPACKED_MARKS:
        raise ValueError(f"holds {_TOO_MANY}")
    try:
        return read_json(text)
    except ValueError as error:
        raise ValueError(f"does not hold JSON: {error}") from error


def _marks(text: bytes) -> int:
    return sum(map(text.count, _MARKS))
