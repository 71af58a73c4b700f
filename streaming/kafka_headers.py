"""The headers of a record that librdkafka has read.

A name of a header is text. Kafka takes any bytes; Java reads those that are not UTF-8 as U+FFFD,
and confluent_kafka fails.
"""

from typing import Any, Final

from confluent_kafka import Message

Headers = tuple[tuple[str, bytes | None], ...]

REPLACED: Final = "\ufffd"
"""What Java has in a name for bytes that are not UTF-8; what nobody can read has this alone."""

UNREADABLE: Final[Headers] = ((REPLACED, None),)


def headers_of(message: Message) -> Headers:
    """The headers; UNREADABLE if a name is not UTF-8."""
    try:
        pairs: Any = message.headers() or ()  # its stubs allow a dict, which it never returns
    except (SystemError, UnicodeDecodeError):  # confluent_kafka 2 raises the former
        return UNREADABLE
    return tuple(pairs)


def are_readable(headers: Headers) -> bool:
    """Whether front and job read these headers alike: all names are UTF-8, and none has U+FFFD."""
    return not any(REPLACED in name for name, _value in headers)
