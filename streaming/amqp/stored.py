"""The messages that the queues of a vhost in memory hold: properties and body, until none holds it.

The broker core knows a message by its offset only. A message is dropped when the events of the core
have ended its last copy.
"""

from itertools import chain
from typing import Any, Final

import msgspec

from streaming.broker.events import Events
from streaming.broker.message import Message, PublishedHeaders

_MESSAGE_BYTES: Final = 250
_COPY_BYTES: Final = 450
"""What a message, and each copy of it, takes besides body and properties, as measured."""


class Stored(msgspec.Struct, gc=False):
    """A message as it was published.

    Attributes:
        properties: as they travelled: flags and values.
        headers: the headers table in them; None if there is none.
        expiration: the property, as it was sent; a delivery may show it otherwise written.
        copies: how many copies of it are in queues.
        kept_bytes: what it takes in memory, about, where that is counted by message.
    """

    properties: bytes
    body: bytes
    headers: dict[str, Any] | None = None
    expiration: str | None = None
    copies: int = 0
    kept_bytes: int = 0


def taken_by(stored: Stored) -> int:
    """How many bytes a message takes in memory, about."""
    return len(stored.body) + len(stored.properties) + _MESSAGE_BYTES


class StoredMessages:
    """The messages of one vhost, by offset.

    Attributes:
        resident_bytes: their bodies and properties, and about what keeping them in queues takes.
    """

    def __init__(self) -> None:
        self._by_offset: dict[int, Stored] = {}
        self.resident_bytes = 0

    def __len__(self) -> int:
        return len(self._by_offset)

    def add(self, stored: Stored, offset: int) -> Message:
        """Keep a message; return how the core knows it."""
        self._by_offset[offset] = stored
        self.resident_bytes += taken_by(stored)
        return Message(0, 0, offset, 0, 0, len(stored.body))

    def of(self, message: Message) -> Stored:
        """The message; it must not have been dropped."""
        return self._by_offset[message.offset]

    def in_memory(self, message: Message) -> Stored | None:
        """The message; None if it is not in memory."""
        return self._by_offset.get(message.offset)

    def published(self, message: Message) -> PublishedHeaders:
        """The headers of a message, for headers exchanges."""
        return PublishedHeaders(self._by_offset[message.offset].headers)

    def count(self, events: Events, published: list[int]) -> None:
        """Drop what the events say is in no queue any more.

        Args:
            published: offsets of the messages that were published meanwhile.
        """
        by_offset = self._by_offset
        moves = events.moves()
        for offset in moves.entered:
            by_offset[offset].copies += 1
        for offset in moves.left:
            by_offset[offset].copies -= 1
        self.resident_bytes += _COPY_BYTES * (len(moves.entered) - len(moves.left))
        for offset in chain(published, moves.left, moves.died):
            stored = by_offset.get(offset)
            if stored is not None and not stored.copies:
                del by_offset[offset]
                self.resident_bytes -= taken_by(stored)
