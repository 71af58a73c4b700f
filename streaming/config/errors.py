"""The operator's mistakes in `dlx.toml`, collected: where each is, and what is wrong there."""

from collections.abc import Mapping, Sequence

from streaming.config.toml import join_index, join_key
from topology.errors import DlxError, Problem


class InvalidConfigError(DlxError):
    """The configuration cannot be used; carries every problem found, not the first.

    No problem ever quotes the value of a secret, nor of a key that might be one.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; all arguments go to the base, so that the error survives pickling."""
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """One problem a line."""
        return "\n".join(str(problem) for problem in self.problems)


class Place:
    """A path inside the document, and the list that problems found there go to."""

    def __init__(
        self,
        path: str = "",
        problems: list[Problem] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """Start at a path.

        Args:
            path: TOML path such as `inputs[2].mapping`; empty for the whole document.
            problems: shared by all places of one document; None starts an empty list.
            elsewhere: setting name -> the table it belongs in, for keys put in the wrong table.
        """
        self.path = path
        self.problems = [] if problems is None else problems
        self.elsewhere = elsewhere or {}

    def key(self, name: str) -> "Place":
        """The place of a member of the table here."""
        return Place(join_key(self.path, name), self.problems, self.elsewhere)

    def index(self, position: int) -> "Place":
        """The place of an element of the array here."""
        return Place(join_index(self.path, position), self.problems, self.elsewhere)

    def report(self, what: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(where=self.path, what=what))

    def report_within(self, problems: Sequence[Problem]) -> None:
        """Add problems whose paths start here."""
        self.problems += [
            Problem(where=join_key(self.path, problem.where, quoted=True), what=problem.what)
            for problem in problems
        ]


def overlap(one: str, other: str) -> bool:
    """Whether two paths name the same setting, or one lies inside the other."""
    return _within(one, other) or _within(other, one)


def _within(path: str, outer: str) -> bool:
    return outer in {path, ""} or path.startswith((f"{outer}.", f"{outer}["))
