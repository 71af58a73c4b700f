"""What a search finds messages by: values of chosen paths of bodies, headers and properties.

body:$.order | body:$.items[0].sku | header:tenant | property:message_id
    message --> (path, value as text) --> key: 64 bits of the value's hash

A value is a string or a number, as it is written: 17 and "17" are found by 17. A message has no
value at a path that cannot be read: its body is no JSON, or is too large; what is there is an
object, an array, true, false or null, or a text of more than MAX_VALUE_BYTES.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from streaming.protocol.amqp_properties import PROPERTIES

MAX_PATHS: Final = 16
MAX_VALUE_BYTES: Final = 256
MAX_BODY_BYTES: Final = 1_048_576
"""Larger bodies have no values."""

PATH: Final = (
    r"header:[^\x00-\x1f]{1,255}"
    rf"|property:({'|'.join(sorted(PROPERTIES))})"
    r'|body:\$(\.[A-Za-z_][A-Za-z0-9_-]{0,99}|\["[^"\\\x00-\x1f]{1,100}"\]|\[[0-9]{1,4}\]){1,16}'
)
"""A regular expression of the paths."""

_STEP: Final = re.compile(r'\.(?P<name>[^.\[]+)|\["(?P<quoted>[^"]+)"\]|\[(?P<index>[0-9]+)\]')
_BROKEN: Final = (msgspec.MsgspecError, ValueError, RecursionError)

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_text = msgspec.json.Decoder(str)

_SPACE: Final = b" \t\r\n"
_MAX_SPACE: Final = 64
"""A document that begins with more spaces is not read."""

_MAX_WRITTEN: Final = 6 * MAX_VALUE_BYTES + 2
"""Of a text in JSON: a character may be written as `\\u0041`."""

Step = str | int
_Members = dict[str, msgspec.Raw] | list[msgspec.Raw] | None


class _Path(NamedTuple):
    """A path of the configuration; `steps` lead into JSON, or are one name."""

    text: str
    source: str
    steps: tuple[Step, ...]


class SearchPaths:
    """Reads the values of chosen paths.

    Args:
        paths: each matches PATH.

    Attributes:
        names: the paths as they were given, each once.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(paths))
        found = [_path(one) for one in self.names]
        self._bodies = [one for one in found if one.source == "body"]
        self._headers = [one for one in found if one.source == "header"]
        self._properties = [one for one in found if one.source == "property"]

    def values(
        self,
        body: bytes | None,
        headers: bytes | str | None,
        properties: Mapping[str, Any] | None,
    ) -> Iterator[tuple[str, str]]:
        """Yield the values that a message has: path, and text.

        Args:
            headers: AMQP headers as typed JSON.
        """
        for path in self._properties:
            value = (properties or {}).get(str(path.steps[0]))
            if isinstance(value, str | int) and _is_short(str(value)):
                yield path.text, str(value)
        if self._headers and headers:
            text = headers.encode("utf-8", "replace") if isinstance(headers, str) else headers
            yield from _values(self._headers, text)
        if self._bodies and body and len(body) <= MAX_BODY_BYTES:
            yield from _values(self._bodies, body)


def key_of(value: str) -> int:
    """The key of a value: 64 bits, signed. Unequal values have the same one in no known case."""
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _path(text: str) -> _Path:
    source, _, rest = text.partition(":")
    if source != "body":
        return _Path(text, source, (rest,))
    steps = tuple(
        int(one["index"]) if one["index"] else one["name"] or one["quoted"]
        for one in _STEP.finditer(rest)
    )
    return _Path(text, source, steps)


def _values(paths: Sequence[_Path], document: bytes) -> Iterator[tuple[str, str]]:
    """The values in a JSON document; what is beside the paths is only skipped."""
    known: dict[tuple[Step, ...], _Members] = {(): _members(document)}
    for path in paths:
        value = _text_of(_at(known, path.steps))
        if value is not None:
            yield path.text, value


def _at(known: dict[tuple[Step, ...], _Members], steps: tuple[Step, ...]) -> bytes | None:
    """What is at the end of some steps, as JSON; None: nothing. Each object is read once."""
    outer, last = steps[:-1], steps[-1]
    if outer not in known:
        found = _at(known, outer)
        known[outer] = None if found is None else _members(found)
    members = known[outer]
    raw = None
    if isinstance(members, dict) and isinstance(last, str):
        raw = members.get(last)
    elif isinstance(members, list) and isinstance(last, int) and last < len(members):
        raw = members[last]
    return None if raw is None else bytes(raw)


def _members(document: bytes) -> _Members:
    """The members of an object or array; None: it is neither."""
    first = document[:_MAX_SPACE].lstrip(_SPACE)[:1]
    try:
        if first == b"{":
            return _object.decode(document)
        return _array.decode(document) if first == b"[" else None
    except _BROKEN:
        return None


def _text_of(written: bytes | None) -> str | None:
    """A string or number as text; None: it is something else, or too long."""
    if written is None or len(written) > _MAX_WRITTEN:
        return None
    written = written.strip(_SPACE)
    if written[:1] == b'"':
        try:
            value = _text.decode(written)
        except _BROKEN:
            return None
    elif written[:1].isdigit() or written[:1] == b"-":
        value = written.decode("ascii", "replace")
    else:
        return None
    return value if _is_short(value) else None


def _is_short(value: str) -> bool:
    if not value or len(value) > MAX_VALUE_BYTES:
        return False
    return len(value.encode("utf-8", "surrogatepass")) <= MAX_VALUE_BYTES
