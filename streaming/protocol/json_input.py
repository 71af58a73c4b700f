"""Reading JSON from outside, up to a fixed depth, and the members of a command in it.

How deep Python can read depends on the depth of its call stack at that moment. The fold decodes
what the intake has read: if only the first succeeded, the stream would stop for ever. So the depth
is limited, far below what both can read.
"""

import re
from typing import Any, Final

import msgspec

from streaming.broker.commands import MESSAGE_ID
from topology.declarations import too_long
from topology.definitions.json_object import Fields, Report

MAX_DEPTH: Final = 200
"""Levels of arrays and objects. A headers table, a few levels deep itself, may have 64 levels."""

_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"

_decoder = msgspec.json.Decoder()


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


class CommandFields(Fields):
    """The members of one command, with the types that only commands have."""

    def whole(self, name: str, default: int | None, least: int, most: int) -> int:
        """Read a whole number within bounds; required if there is no default."""
        if default is None and self.value(name) is None:
            self._problem(name, "is missing")
            return least
        instead = least if default is None else default
        value = self.integer(name, instead)
        if not least <= value <= most:
            self._problem(name, f"must be from {least} to {most}, not {value}")
            return instead
        return value

    def name(self, name: str, default: str | None = None) -> str:
        """Read a name, which AMQP limits in length; required if there is no default."""
        value = self.text(name, default)
        fault = too_long(value)
        if fault is not None:
            self._problem(name, fault)
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Read an array of strings; required if there is no default."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            wrong = "is missing" if value is None else "expected an array of strings"
            self._problem(name, wrong)
            return ()
        return tuple(value)

    def message_id(self, name: str) -> str:
        """Read a message id, such as `1/0/42`."""
        text = self.text(name)
        if isinstance(self.value(name), str) and not re.search(MESSAGE_ID, text):
            expected = "topic number/partition/offset, such as 1/0/42"
            self._problem(name, f"expected {expected}, got {text!r}")
        return text

    def inner(self, name: str) -> Fields:
        """Read a nested object."""
        value = self.value(name)
        if value is None:
            self._problem(name, "is missing")
            return Fields({}, self.at(name), Report())
        return Fields(value, self.at(name), self.report)
