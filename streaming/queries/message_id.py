"""How a message is named in words: `topic number/partition/offset` of its Kafka record."""

import re
from typing import Any, Final, NamedTuple, Self

_TEXT: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})/([0-9]{1,18})")


class MessageId(NamedTuple):
    """The key of a message in `messages`."""

    topic_number: int
    partition: int
    offset: int

    def __str__(self) -> str:
        """As the commands print it and take it: `1/0/42`."""
        return f"{self.topic_number}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The identity that a text is, or None if it is none."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(*(int(part) for part in found.groups()))

    @classmethod
    def of(cls, value: dict[str, Any] | None) -> Self | None:
        """The identity in a `message_id` struct."""
        return None if value is None else cls(**value)
