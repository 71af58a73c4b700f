"""How problems with a topology are reported.

An unusable file raises `InvalidTopologyError`, which carries every problem. A pattern that cannot
be matched in linear time raises `UnsupportedPatternError`. A command that RabbitMQ would refuse
yields a `Refusal` (see `refusals`): one client's mistake must not stop the log.
"""

from collections.abc import Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with a document; `where` is a path such as `bindings[2].source`."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class DlxError(Exception):
    """An operator's mistake, which the operator can correct."""


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
