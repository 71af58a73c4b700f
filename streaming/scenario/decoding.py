"""Decode the bytes of a scenario file into a JSON document that can be played.

Python accepts more than JSON and AMQP: NaN, numbers beyond 64 bits or a double, text that UTF-8
cannot express, repeated members, unlimited nesting. A broker would not return them unchanged, so
each is reported with its path.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from streaming.protocol.json_input import MAX_DEPTH
from topology.errors import Problem
from topology.values import INTEGERS

DOCUMENT = "document"
"""The path of the whole document, as for definitions files."""

_MAX_PATH = 200
_DIGITS = 20
_TOO_BIG = 2**64


def decode(text: bytes | str) -> tuple[Any, list[Problem]]:
    """Decode JSON text; return the document and the problems of its values.

    Values with problems must not be used.
    """
    repeated: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _value in pairs]
            repeated.extend(name for name in found if names.count(name) > 1)
        return found

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        document = json.loads(text, parse_int=_integer, object_pairs_hook=members)
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte {error.object[error.start]:#04x} at position {error.start}"
        return None, [Problem(DOCUMENT, what)]
    except RecursionError:
        return None, [Problem(DOCUMENT, f"is nested more than {MAX_DEPTH} levels deep")]
    except ValueError as error:
        return None, [Problem(DOCUMENT, f"is not JSON: {error}")]
    problems = [
        Problem(DOCUMENT, f"an object names its member {name!r} twice")
        for name in dict.fromkeys(repeated)
    ]
    return document, [*problems, *_unusable(document)]


def _integer(digits: str) -> int:
    """Read an integer; one with too many digits for Python becomes one that is too large."""
    return int(digits) if len(digits) <= _DIGITS else _TOO_BIG


def _unusable(document: Any) -> Iterator[Problem]:
    """The values that JSON or AMQP cannot express, in document order."""
    work: list[tuple[str, int, Any]] = [("", 0, document)]
    while work:
        where, depth, value = work.pop()
        if isinstance(value, list | dict):
            if depth == MAX_DEPTH:
                path = where if len(where) <= _MAX_PATH else f"{where[:_MAX_PATH]}..."
                yield Problem(path, f"is nested more than {MAX_DEPTH} levels deep")
                continue
            inner = [(at, depth + 1, item) for at, item in _inner(where, value)]
            work.extend(reversed(inner))
            if isinstance(value, dict):
                yield from (
                    Problem(where or DOCUMENT, f"the name {name!r} {_NO_TEXT}")
                    for name in value
                    if not _is_text(name)
                )
        elif what := _complaint(value):
            yield Problem(where or DOCUMENT, what)


def _inner(where: str, value: list[Any] | dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{where}[{index}]", item) for index, item in enumerate(value))
        return
    for name, item in value.items():
        yield _member(where, name), item


def _member(where: str, name: str) -> str:
    if not name.isprintable():
        return f"{where}[{name!r}]"
    return f"{where}.{name}" if where else name


def _complaint(value: Any) -> str:
    """What is wrong with a value; empty if nothing is."""
    if isinstance(value, str):
        return "" if _is_text(value) else _NO_TEXT
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, int) and value not in INTEGERS:
        return "is a number beyond 64 bits"
    return ""


_NO_TEXT = "has half of a surrogate pair, which is not valid text"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
