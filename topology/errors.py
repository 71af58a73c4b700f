"""How problems with a topology are reported.

An unusable file raises `InvalidTopologyError`, which carries every problem. A pattern that cannot
be matched in linear time raises `UnsupportedPatternError`. A command that RabbitMQ would refuse
yields a `Refusal` (see `refusals`): one client's mistake must not stop the log.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class Problem(msgspec.Struct, frozen=True, eq=False):
    """One thing wrong with a document.

    Two problems are equal if they read alike: the other members follow from the words.

    Attributes:
        where: a path such as `bindings[2].source`, or an object such as `queue 'work'`.
        code: a name for its kind, for programs (see `findings`); empty where nobody needs one.
        vhost: the vhost that it is in; None if it is in none, or in the only one.
    """

    where: str
    what: str
    code: str = ""
    vhost: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)

    @property
    def _words(self) -> tuple[str, str]:
        return self.where, self.what


class DlxError(Exception):
    """An operator's mistake, which the operator can correct.

    Attributes:
        help_code: a stable name for its kind, which `dlx doctor explain` explains; empty for most.
    """

    help_code: ClassVar[str] = ""


class InvalidDocumentError(DlxError):
    """A file cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)  # all arguments: the error can be pickled
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class InvalidTopologyError(InvalidDocumentError):
    """The topology cannot be used."""


class UnsupportedPatternError(DlxError):
    """A policy or permission pattern that is malformed or cannot be matched in linear time."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(pattern, reason)
        self.pattern = pattern
        self.reason = reason

    def __str__(self) -> str:
        return f"pattern {self.pattern!r} {self.reason}"
