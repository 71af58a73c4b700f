"""From which offset on the log of a vhost is needed, by its front.

A fold that goes on from a snapshot needs the records behind it, and the messages that were in
queues then: clients get them from the log. How many copies of them are in queues is counted for
ranges of offsets, from the events, so it costs little for any number of messages.

A new version of a letter is in no queue until a redrive asks for it. It is kept until no redrive is
open, and at least until the second snapshot behind it.
"""

from collections import Counter
from collections.abc import ItemsView
from typing import Final

import msgspec

from streaming.broker.events import Events, Kind, Moves

KEY: Final = "needed"
"""Of the state store."""

_RANGE_BITS: Final = 10
_EDITED: Final = int(Kind.EDITED)


class _Record(msgspec.Struct, array_like=True):
    copies: dict[int, int]
    versions: list[int]
    older_versions: int


_decoder: Final = msgspec.msgpack.Decoder(_Record)


def _by_range(offsets: list[int]) -> ItemsView[int, int]:
    return Counter([offset >> _RANGE_BITS for offset in offsets]).items()


class NeededOffsets:
    """Counts the copies in queues by the offsets of their messages.

    Args:
        data: what `at_rest` returned.
    """

    def __init__(self, data: bytes | None = None) -> None:
        record = _Record({}, [], 0) if data is None else _decoder.decode(data)
        self._copies = record.copies
        self._versions = record.versions
        self._older_versions = record.older_versions

    def __len__(self) -> int:
        """How many copies are in queues."""
        return sum(self._copies.values())

    def count(self, events: Events) -> Moves:
        """Count what has entered queues, and left them; return it."""
        moves = events.moves()
        copies = self._copies
        for number, moved in _by_range(moves.entered):
            copies[number] = copies.get(number, 0) + moved
        for number, moved in _by_range(moves.left):
            left = copies.get(number, 0) - moved
            if left:
                copies[number] = left
            else:
                copies.pop(number, None)
        for row, (message, _envelope) in events.messages.items():
            if events.kinds[row] == _EDITED:
                self._versions.append(message.offset)
        return moves

    def first(self, next_offset: int) -> int:
        """The first offset that a fold from here on needs."""
        found = [next_offset, *self._versions[:1]]
        if self._copies:
            found.append(min(self._copies) << _RANGE_BITS)
        return min(found)

    def rest(self, *, redrives_are_open: bool) -> None:
        """Note that a snapshot is made, with `first`."""
        if not redrives_are_open:
            del self._versions[: self._older_versions]
        self._older_versions = len(self._versions)

    def at_rest(self) -> bytes:
        """Encode it."""
        record = _Record(self._copies, self._versions, self._older_versions)
        return msgspec.msgpack.encode(record)
