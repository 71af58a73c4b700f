"""How far the inputs of a vhost were copied into its log.

The records of the log say where they were copied from, so this follows from the log alone. It is
part of a front's state, and so of its snapshots.
"""

from typing import Final

import msgspec

from streaming.broker.state.store import StateStore
from streaming.protocol.copied_records import Source

KEY: Final = "copied"
"""Of the state store."""

_decoder: Final = msgspec.msgpack.Decoder(dict[str, dict[int, int]])


class CopiedPositions:
    """The next offset to copy of each partition of the inputs of one vhost.

    Args:
        store: where they rest.
    """

    def __init__(self, store: StateStore) -> None:
        data = store.read(KEY)
        self._store = store
        self._next: dict[str, dict[int, int]] = {} if data is None else _decoder.decode(data)

    def note(self, source: Source) -> None:
        """Note that a record of the log, which counts, was copied from there."""
        self._next.setdefault(source.topic, {})[source.partition] = source.offset + 1

    def next_of(self, topic: str, partition: int) -> int | None:
        """The next offset to copy; None if nothing was copied."""
        return self._next.get(topic, {}).get(partition)

    def save(self) -> None:
        """Write them."""
        self._store.write(KEY, msgspec.msgpack.encode(self._next))
