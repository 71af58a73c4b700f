"""The part of TOML that the standard library leaves out: paths, and writing values."""

import re
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_SHORT_ESCAPES: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_GROUPED_FROM: Final = 10_000
"""Numbers with more digits than a year are written in groups of three."""


def write_string(text: str) -> str:
    """A basic string: quoted, with control characters escaped."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in '"\\':
        return f"\\{character}"
    return _SHORT_ESCAPES.get(character, f"\\u{ord(character):04x}")


def write_whole(number: int) -> str:
    """An integer; long ones are grouped: `1_048_576`."""
    return f"{number:_}" if abs(number) >= _GROUPED_FROM else str(number)


def write_scalar(value: object) -> str:
    """A boolean, number or string.

    Raises:
        TypeError: it is something else.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return write_whole(value)
        case float():
            return repr(value)
        case str():
            return write_string(value)
        case _:
            raise TypeError(type(value).__name__)


def write_key(name: str) -> str:
    """A key, quoted where TOML asks for it."""
    return name if _BARE_KEY.fullmatch(name) else write_string(name)


def join_key(path: str, name: str, *, quoted: bool = False) -> str:
    """The path of a member: `vhosts."/"` and `lanes` give `vhosts."/".lanes`.

    Args:
        path: the table's path; empty for the document.
        name: the member's name.
        quoted: whether `name` is already a path, which may be empty.
    """
    tail = name if quoted else write_key(name)
    return f"{path}.{tail}" if path and tail else path or tail


def join_index(path: str, position: int) -> str:
    """The path of an element: `inputs[2]`."""
    return f"{path}[{position}]"


def kind_of(raw: object) -> str:
    """What a parsed value is, in TOML's words; never the value, which may be a secret."""
    match raw:
        case bool():
            return "a boolean"
        case int():
            return "a whole number"
        case float():
            return "a float"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"
