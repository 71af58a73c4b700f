"""Reading one JSON object member by member, and reporting everything that is wrong with it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from topology.errors import InvalidTopologyError, Problem
from topology.sentences import said, say, say_count
from topology.suggestions import did_you_mean
from topology.values import Table, json_type, table_from_json

Wanted = TypeVar("Wanted")

MAX_PROBLEMS = 1_000
"""Problems listed of a document that comes over the wire: its report must not outgrow it."""


class Report:
    """The problems found, and the items skipped, while reading a document.

    Attributes:
        skipped: what is not supported and is ignored.
        vhost: the vhost that is being read; None outside of any.
        limit: how many problems and skipped items are listed; None for all.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.problems: list[Problem] = []
        self.skipped: list[Problem] = []
        self.vhost: str | None = None
        self.limit = limit
        self._more_skipped = 0

    def problem(self, where: str, what: str, code: str = "") -> None:
        """Add a problem.

        Raises:
            InvalidTopologyError: the limit is exceeded; carries the problems up to there.
        """
        if len(self.problems) == self.limit:
            what = say("has more problems: only the first %(limit)s are listed", limit=self.limit)
            more = Problem(where, what, "too-many-problems")
            raise InvalidTopologyError([*self.problems, more])
        self.problems.append(Problem(where, what, code, self.vhost))

    def skip(self, where: str, what: str, code: str = "") -> None:
        """Add a skipped item; those above the limit are only counted."""
        if len(self.skipped) == self.limit:
            self._more_skipped += 1
        else:
            self.skipped.append(Problem(where, what, code, self.vhost))

    def all_skipped(self) -> tuple[Problem, ...]:
        """The skipped items, and the number of those above the limit."""
        if not self._more_skipped:
            return tuple(self.skipped)
        what = say_count(
            "%(count)s more is skipped", "%(count)s more are skipped", self._more_skipped
        )
        more = Problem(say("document"), what, "more-skipped")
        return (*self.skipped, more)


class Fields:
    """One JSON object; a member that is missing or of the wrong type is a problem.

    Each method returns a value of the right type in any case, so that reading can continue; ignore
    the result if there was a problem.

    Attributes:
        sound: whether no problem was found so far.
    """

    def __init__(self, document: object, where: str, report: Report) -> None:
        self.where = where
        self.report = report
        self.sound = isinstance(document, dict)
        self._read: set[str] = set()
        self._is_object = self.sound
        self._members: Mapping[str, object] = document if isinstance(document, dict) else {}
        if not self.sound:
            what = say("expected an object, got %(given)s", given=json_type(document))
            report.problem(where, what, "wrong-type")

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.where}.{name}" if self.where else name

    def value(self, name: str) -> object:
        """Read any member as it is; None if it is missing."""
        self._read.add(name)
        return self._members.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """Read a string; required if there is no default."""
        value = self._given(name, default)
        if value is None or isinstance(value, str):
            return value or ""
        return self._wrong(name, say("a string"), value, "")

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """Read one of these strings; required if there is no default."""
        value = self.text(name, default)
        if value not in choices and isinstance(self._members.get(name), str):
            hint = did_you_mean(value, choices)
            what = say(
                "must be one of %(choices)s, not %(given)s%(hint)s",
                choices=", ".join(choices),
                given=repr(value),
                hint=hint,
            )
            self._problem(name, what, "invalid-value")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Read a boolean."""
        value = self._given(name, default)
        if isinstance(value, bool):
            return value
        return self._wrong(name, say("a boolean"), value, default)

    def integer(self, name: str, default: int) -> int:
        """Read a whole number."""
        value = self._given(name, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._wrong(name, say("a whole number"), value, default)

    def table(self, name: str, *, required: bool = False) -> Table:
        """Read a table of AMQP values; old exports write an empty one as an empty array."""
        value = self._given(name, None if required else {})
        if value is None or value == []:
            return {}
        try:
            return table_from_json(value)
        except ValueError as error:
            self._problem(name, said(error), "wrong-type")
            return {}

    def unknown(self, also_known: Iterable[str] = ()) -> list[tuple[str, str]]:
        """The members that nothing has read: the path and a message for each."""
        known = sorted({*self._read, *also_known})
        return [
            (
                self.at(str(name)),
                say("is not a known member%(hint)s", hint=did_you_mean(str(name), known)),
            )
            for name in self._members
            if name not in known
        ]

    def skip_unknown(self) -> None:
        """Report the members that were not read as skipped."""
        for path, what in self.unknown():
            self.report.skip(path, what, "unknown-member")

    def _given(self, name: str, default: object) -> object:
        """Read a member, or its default; it is required if the default is None."""
        value = self.value(name)
        if value is not None:
            return value
        if default is None and self._is_object:
            self._problem(name, say("is missing"), "missing-member")
        return default

    def _problem(self, name: str, what: str, code: str = "invalid-value") -> None:
        self.sound = False
        self.report.problem(self.at(name), what, code)

    def _wrong(self, name: str, wanted: str, value: object, instead: Wanted) -> Wanted:
        what = say("expected %(wanted)s, got %(given)s", wanted=wanted, given=json_type(value))
        self._problem(name, what, "wrong-type")
        return instead
