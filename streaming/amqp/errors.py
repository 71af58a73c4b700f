"""AMQP errors, as the protocol tells them: of a channel, or of the whole connection.

A refusal of the broker core (`topology.refusals`) is the same by another name: its code decides
which of the two it is.
"""

from typing import Final

CONTENT_TOO_LARGE, NO_ROUTE, NO_CONSUMERS = 311, 312, 313
ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406
CONNECTION_FORCED = 320
FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, CHANNEL_ERROR, UNEXPECTED_FRAME = (
    501,
    502,
    503,
    504,
    505,
)
RESOURCE_ERROR, NOT_ALLOWED, NOT_IMPLEMENTED, INTERNAL_ERROR = 506, 530, 540, 541

_OF_A_CHANNEL: Final = frozenset(
    {
        CONTENT_TOO_LARGE,
        NO_ROUTE,
        NO_CONSUMERS,
        ACCESS_REFUSED,
        NOT_FOUND,
        RESOURCE_LOCKED,
        PRECONDITION_FAILED,
    }
)
NAMES: Final = {
    CONNECTION_FORCED: "CONNECTION_FORCED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
}
"""RabbitMQ's word for each code; its reply texts begin with it."""


class AmqpError(Exception):
    """A client broke the protocol, or asked for something that is refused.

    Attributes:
        code: AMQP's reply code.
        text: RabbitMQ's reply text, with the word for the code: `NOT_FOUND - no queue ...`.
        method: class and number of the method that caused it; zeros for none.
        names_method: whether the client is told which method caused it.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.method = (0, 0)
        self.names_method = True

    def __str__(self) -> str:
        return f"{self.code} {self.text}"

    def settled(self) -> "AmqpError":
        """The error to tell, now that all that was asked before is answered."""
        return self

    @property
    def ends_connection(self) -> bool:
        """Whether it ends the whole connection, not only the channel."""
        return self.code not in _OF_A_CHANNEL


_MAX_REPLY_BYTES: Final = 255
_MORE: Final = b"..."


def reply_text(text: str) -> str:
    """The text of an error as a reply has room for it: RabbitMQ marks what it cuts."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= _MAX_REPLY_BYTES:
        return text
    return (data[: _MAX_REPLY_BYTES - len(_MORE)] + _MORE).decode("utf-8", "ignore")


def error(code: int, text: str) -> AmqpError:
    """An error with RabbitMQ's word in front of its text."""
    return AmqpError(code, f"{NAMES[code]} - {text}")


def syntax_error(text: str) -> AmqpError:
    """502: the fields of a method, a table or a property cannot be read."""
    return error(SYNTAX_ERROR, text)


class MalformedTextError(AmqpError):
    """501: a name is not UTF-8; on a channel, RabbitMQ finds that before it knows the method."""

    def __init__(self) -> None:
        super().__init__(FRAME_ERROR, f"{NAMES[FRAME_ERROR]} - Malformed UTF-8 in shortstr")
        self.names_method = False
