"""Reading one JSON object member by member, and writing down everything that is wrong with it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from topology.errors import InvalidTopologyError, Problem
from topology.suggestions import did_you_mean
from topology.values import Table, json_type, table_from_json

Wanted = TypeVar("Wanted")

MOST_PROBLEMS = 1_000
"""Of a document that comes over the wire."""


class Report:
    """What reading a document brought to light.

    Attributes:
        problems: what makes it unusable.
        left_out: what is not modelled and was left out.
        most: how many of each are written down at most; None: all.
    """

    def __init__(self, most: int | None = None) -> None:
        """Nothing yet."""
        self.problems: list[Problem] = []
        self.left_out: list[Problem] = []
        self.most = most
        self._more_left_out = 0

    def problem(self, where: str, what: str) -> None:
        """Write down something that makes the document unusable.

        Raises:
            InvalidTopologyError: there are too many; with those so far. Whoever writes a document
                of megabytes in which all is wrong does not get it back tenfold.
        """
        if len(self.problems) == self.most:
            more = Problem(where, f"is the last that is named: more than {self.most} are wrong")
            raise InvalidTopologyError([*self.problems, more])
        self.problems.append(Problem(where, what))

    def add(self, problems: Iterable[Problem]) -> None:
        """Write down problems that were found elsewhere; as `problem`."""
        for problem in problems:
            self.problem(problem.where, problem.what)

    def leave_out(self, where: str, what: str) -> None:
        """Write down something that was left out; of too many only their number."""
        if len(self.left_out) == self.most:
            self._more_left_out += 1
        else:
            self.left_out.append(Problem(where, what))

    def all_left_out(self) -> tuple[Problem, ...]:
        """What was left out, the number of what is not written down included."""
        if not self._more_left_out:
            return tuple(self.left_out)
        return (*self.left_out, Problem("document", f"{self._more_left_out} more are left out"))


class Fields:
    """One JSON object; a member that is missing or of the wrong type is a problem.

    Each method answers with something of the right type in any case, so that reading can go on; the
    result counts only if there was no problem.

    Attributes:
        where: path of the object.
        report: where problems are written down.
        sound: whether there was no problem so far.
    """

    def __init__(self, document: object, where: str, report: Report) -> None:
        """Begin to read a document that ought to be an object, found at `where`."""
        self.where = where
        self.report = report
        self.sound = True
        self._read: set[str] = set()
        self._members: Mapping[str, object] = {}
        self._is_object = isinstance(document, dict)
        if isinstance(document, dict):
            self._members = document
        else:
            self.sound = False
            report.problem(where, f"expected an object, got {json_type(document)}")

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.where}.{name}" if self.where else name

    def value(self, name: str) -> object:
        """Any member as it is; None if it is missing."""
        self._read.add(name)
        return self._members.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required if there is no default."""
        value = self._given(name, default)
        if value is None or isinstance(value, str):
            return value or ""
        return self._wrong(name, "a string", value, "")

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of some strings; required if there is no default."""
        value = self.text(name, default)
        if value not in choices and isinstance(self._members.get(name), str):
            one_of = ", ".join(choices)
            hint = did_you_mean(value, choices)
            self._problem(name, f"must be one of {one_of}, not {value!r}{hint}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._given(name, default)
        return value if isinstance(value, bool) else self._wrong(name, "a boolean", value, default)

    def integer(self, name: str, default: int) -> int:
        """A whole number."""
        value = self._given(name, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._wrong(name, "a whole number", value, default)

    def table(self, name: str, *, required: bool = False) -> Table:
        """A table of AMQP values; old exports write an empty one as an empty array."""
        value = self._given(name, None if required else {})
        if value is None or value == []:
            return {}
        try:
            return table_from_json(value)
        except ValueError as error:
            self._problem(name, str(error))
            return {}

    def unknown(self, also_known: Iterable[str] = ()) -> list[tuple[str, str]]:
        """The members that nobody asked for: their path, and what to say about them."""
        known = sorted({*self._read, *also_known})
        return [
            (self.at(str(name)), f"is not a known member{did_you_mean(str(name), known)}")
            for name in self._members
            if name not in known
        ]

    def _given(self, name: str, default: object) -> object:
        """A member, or its default; its absence is a problem if the default is None."""
        value = self.value(name)
        if value is not None:
            return value
        if default is None and self._is_object:
            self._problem(name, "is missing")
        return default

    def _problem(self, name: str, what: str) -> None:
        self.sound = False
        self.report.problem(self.at(name), what)

    def _wrong(self, name: str, wanted: str, value: object, instead: Wanted) -> Wanted:
        self._problem(name, f"expected {wanted}, got {json_type(value)}")
        return instead
