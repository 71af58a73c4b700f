"""Whose fault was it: the three forms that a problem with a topology takes.

A file that cannot be used raises `InvalidTopologyError`, which lists every problem. A command that
RabbitMQ would refuse yields a `Refusal`: data, because one client's mistake must not stop the log.
A pattern that cannot be matched in linear time raises `UnsupportedPatternError`.
"""

from collections.abc import Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with a document.

    Attributes:
        where: path inside the document, such as `bindings[2].source`.
        what: what is wrong there, in words.
    """

    where: str
    what: str

    def __str__(self) -> str:
        """`where: what`, the form in which problems are printed."""
        return f"{self.where}: {self.what}"


class DlxError(Exception):
    """Anything that an operator did wrong and can put right."""


class InvalidTopologyError(DlxError):
    """The topology cannot be used; carries every problem found, not the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; all arguments go to the base, so that the error survives pickling."""
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """One problem a line."""
        return "\n".join(str(problem) for problem in self.problems)


class UnsupportedPatternError(DlxError):
    """A policy or permission pattern that is malformed or cannot be matched in linear time."""

    def __init__(self, pattern: str, reason: str) -> None:
        """Keep the pattern and the reason, in words."""
        super().__init__(pattern, reason)
        self.pattern = pattern
        self.reason = reason

    def __str__(self) -> str:
        """The pattern, quoted, and why it is refused."""
        return f"pattern {self.pattern!r} {self.reason}"
