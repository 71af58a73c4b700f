"""The headers of a record that librdkafka has read.

A name of a header is text. Kafka takes any bytes; Java reads those that are not UTF-8 as U+FFFD,
and confluent_kafka fails.
"""

import ctypes
from typing import Any, Final

from confluent_kafka import Message

Headers = tuple[tuple[str, bytes | None], ...]

REPLACED: Final = "\ufffd"
"""What Java has in a name for bytes that are not UTF-8; what nobody can read has this alone."""

UNREADABLE: Final[Headers] = ((REPLACED, None),)


_CALL: Final = ctypes.pythonapi.PyObject_CallNoArgs
_CALL.argtypes, _CALL.restype = (ctypes.py_object,), ctypes.py_object
"""Calls a function and looks whether it has set an error: Python itself no longer does so once a
call is optimized. confluent_kafka 2 returns pairs without a name then, whose use is a crash."""


def headers_of(message: Message) -> Headers:
    """The headers; UNREADABLE if a name is not UTF-8."""
    try:
        pairs: Any = _CALL(message.headers)  # its stubs allow a dict, which it never returns
    except (SystemError, UnicodeDecodeError):
        return UNREADABLE
    return tuple(pairs or ())


def are_readable(headers: Headers) -> bool:
    """Whether front and job read these headers alike: all names are UTF-8, and none has U+FFFD."""
    return not any(REPLACED in name for name, _value in headers)
