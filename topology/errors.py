"""How problems with a topology are reported.

An unusable file raises `InvalidTopologyError`, which carries every problem. A pattern that cannot
be matched in linear time raises `UnsupportedPatternError`. A command that RabbitMQ would refuse
yields a `Refusal` (see `refusals`): one client's mistake must not stop the log.
"""

from collections.abc import Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with a document.

    Attributes:
        where: path inside the document, such as `bindings[2].source`.
        what: what is wrong there, for people.
    """

    where: str
    what: str

    def __str__(self) -> str:
        """`where: what`, the form in which problems are printed."""
        return f"{self.where}: {self.what}"


class DlxError(Exception):
    """An operator's mistake, which the operator can correct."""


class InvalidDocumentError(DlxError):
    """A file cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems. All arguments go to the base, so that the error can be pickled."""
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """One problem per line."""
        return "\n".join(str(problem) for problem in self.problems)


class InvalidTopologyError(InvalidDocumentError):
    """The topology cannot be used."""


class UnsupportedPatternError(DlxError):
    """A policy or permission pattern that is malformed or cannot be matched in linear time."""

    def __init__(self, pattern: str, reason: str) -> None:
        """Keep the pattern and the reason, for people."""
        super().__init__(pattern, reason)
        self.pattern = pattern
        self.reason = reason

    def __str__(self) -> str:
        """The quoted pattern, and why it is refused."""
        return f"pattern {self.pattern!r} {self.reason}"
