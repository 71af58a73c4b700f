"""Reading JSON from outside, up to a fixed depth, and the members of a command in it.

How deep Python can read depends on the depth of its call stack at that moment. A command is read
twice, at the intake and in the fold: if only the first succeeded, the stream would stop for ever.
So the depth is limited, far below what both can read.
"""

from typing import Any, Final

import msgspec

from topology.declarations import too_long
from topology.definitions.json_object import Fields, Report

MAX_DEPTH: Final = 200
"""Levels of arrays and objects. A headers table, a few levels deep itself, may have 64 levels."""

_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"

_decoder = msgspec.json.Decoder()

MESSAGE_ID_PARTS = 3
MAX_DIGITS = 18


def read_json(text: bytes) -> Any:
    """Decode JSON.

    Raises:
        ValueError: not JSON, or nested too deep; the message says which.
    """
    try:
        document = _decoder.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_too_deep(document):
        raise ValueError(_TOO_DEEP)
    return document


def _is_too_deep(document: Any) -> bool:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


class CommandFields(Fields):
    """The members of one command, with the types that only commands have."""

    def whole(self, name: str, default: int, least: int, most: int = 1 << 53) -> int:
        """Read a whole number within bounds."""
        value = self.integer(name, default)
        if not least <= value <= most:
            self._problem(name, f"must be from {least} to {most}, not {value}")
            return default
        return value

    def required_whole(self, name: str, least: int, most: int) -> int:
        """Read a whole number within bounds that must be there."""
        if self.value(name) is None:
            self._problem(name, "is missing")
            return least
        return self.whole(name, least, least, most)

    def optional_whole(self, name: str, least: int) -> int | None:
        """Read a whole number; None if it is missing."""
        return None if self.value(name) is None else self.whole(name, least, least)

    def optional_text(self, name: str) -> str | None:
        """Read a string; None if it is missing."""
        return None if self.value(name) is None else self.text(name)

    def name(self, name: str, default: str | None = None) -> str:
        """Read a name, which AMQP limits in length; required if there is no default."""
        value = self.text(name, default)
        fault = too_long(value)
        if fault is not None:
            self._problem(name, fault)
        return value

    def optional_name(self, name: str) -> str | None:
        """Read a name; None if it is missing."""
        return None if self.value(name) is None else self.name(name)

    def refs(self) -> tuple[str, ...]:
        """Read the delivery refs of a settlement."""
        value = self.value("refs")
        if not isinstance(value, list) or not all(isinstance(ref, str) for ref in value):
            wrong = "is missing" if value is None else "expected an array of strings"
            self._problem("refs", wrong)
            return ()
        return tuple(value)

    def message_id(self, name: str) -> tuple[int, int, int] | None:
        """Read a message id, such as `1/0/42`; None if it is missing."""
        text = self.optional_text(name)
        if text is None:
            return None
        parts = text.split("/")
        if len(parts) != MESSAGE_ID_PARTS or not all(map(_is_number, parts)):
            expected = "topic number/partition/offset, such as 1/0/42"
            self._problem(name, f"expected {expected}, got {text!r}")
            return None
        topic_number, partition, offset = map(int, parts)
        return topic_number, partition, offset

    def inner(self, name: str) -> Fields:
        """Read a nested object."""
        value = self.value(name)
        if value is None:
            self._problem(name, "is missing")
            return Fields({}, self.at(name), Report())
        return Fields(value, self.at(name), self.report)

    def reply_id(self) -> str | None:
        """Read the client's correlation id for the reply."""
        return self.optional_text("reply_id")
