"""The members of a command's JSON object, each read as what it has to be."""

from __future__ import annotations

from topology.declarations import too_long
from topology.definitions.json_object import Fields, Report


class CommandFields(Fields):
    """The members of one command."""

    def whole(self, name: str, default: int, least: int, most: int = 1 << 53) -> int:
        """A whole number within bounds."""
        value = self.integer(name, default)
        if not least <= value <= most:
            self._problem(name, f"must be from {least} to {most}, not {value}")
            return default
        return value

    def optional_whole(self, name: str, least: int) -> int | None:
        """A whole number, or None if it is missing."""
        return None if self.value(name) is None else self.whole(name, least, least)

    def optional_text(self, name: str) -> str | None:
        """A string, or None if it is missing."""
        return None if self.value(name) is None else self.text(name)

    def name(self, name: str, default: str | None = None) -> str:
        """A string that AMQP could carry as a name; required if there is no default."""
        value = self.text(name, default)
        fault = too_long(value)
        if fault is not None:
            self._problem(name, fault)
        return value

    def optional_name(self, name: str) -> str | None:
        """A name, or None if it is missing."""
        return None if self.value(name) is None else self.name(name)

    def refs(self) -> tuple[str, ...]:
        """The deliveries that a settlement names."""
        value = self.value("refs")
        if not isinstance(value, list) or not all(isinstance(ref, str) for ref in value):
            wrong = "is missing" if value is None else "expected an array of strings"
            self._problem("refs", wrong)
            return ()
        return tuple(value)

    def inner(self, name: str) -> Fields:
        """An object inside this one."""
        value = self.value(name)
        if value is None:
            self._problem(name, "is missing")
            value = {}
            return Fields(value, self.at(name), Report())
        return Fields(value, self.at(name), self.report)

    def reply_id(self) -> str | None:
        """The asker's mark."""
        return self.optional_text("reply_id")
