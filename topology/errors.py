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


class Refusal(msgspec.Struct, frozen=True):
    """An AMQP error as data.

    Attributes:
        code: AMQP reply code: 403, 404, 405, 406 or 503.
        text: RabbitMQ's reply text, such as `NOT_FOUND - no queue 'q' in vhost '/'`.
    """

    code: int
    text: str


def access_refused(text: str) -> Refusal:
    """403: a reserved name, an internal exchange, or a missing permission."""
    return Refusal(403, f"ACCESS_REFUSED - {text}")


def not_found(text: str) -> Refusal:
    """404: the exchange, queue or binding does not exist."""
    return Refusal(404, f"NOT_FOUND - {text}")


def resource_locked(text: str) -> Refusal:
    """405: an exclusive queue of another connection."""
    return Refusal(405, f"RESOURCE_LOCKED - {text}")


def precondition_failed(text: str) -> Refusal:
    """406: an invalid or inequivalent argument, or an object in use."""
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


def command_invalid(text: str) -> Refusal:
    """503: a command that makes no sense here, such as an unknown exchange type."""
    return Refusal(503, f"COMMAND_INVALID - {text}")
