"""Headers whose names are not UTF-8 end no program."""

from typing import Any

import pytest

from streaming.kafka_headers import UNREADABLE, are_readable, headers_of


class Message:
    """A record as confluent_kafka has it."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def headers(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    ("found", "expected", "readable"),
    [
        (None, (), True),
        ([("a", b"1"), ("a", None)], (("a", b"1"), ("a", None)), True),
        ([("a\ufffd", b"1")], (("a\ufffd", b"1"),), False),
        (SystemError("headers returned a result with an exception set"), UNREADABLE, False),
    ],
)
def test_headers_are_read_whatever_bytes_a_name_has(found, expected, readable):
    message: Any = Message(found)

    assert headers_of(message) == expected
    assert are_readable(expected) == readable
