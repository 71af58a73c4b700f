"""How far the inputs of a vhost were copied into its log.

The records of the log say where they were copied from, so this follows from the log alone. It is
part of a front's state, and so of its snapshots.
"""

from typing import Final

import msgspec

from streaming.broker.state.store import StateStore
from streaming.protocol.copied_records import Source

KEY: Final = "copied"
IDS: Final = "copied_topics"
"""Of the state store."""

_decoder: Final = msgspec.msgpack.Decoder(dict[str, dict[int, int]])
_ids: Final = msgspec.msgpack.Decoder(dict[str, str])


class CopiedPositions:
    """The next offset to copy of each partition of the inputs of one vhost.

    Args:
        store: where they rest.
    """

    def __init__(self, store: StateStore) -> None:
        data = store.read(KEY)
        self._store = store
        self._next: dict[str, dict[int, int]] = {} if data is None else _decoder.decode(data)

        ids = store.read(IDS)
        self._topics: dict[str, str] = {} if ids is None else _ids.decode(ids)

    def note(self, source: Source) -> None:
        """Note that a record of the log, which counts, was copied from there."""
        topic, topic_id = source.topic, source.topic_id
        if topic_id:
            known = self._topics.get(topic)
            if known not in (None, topic_id):
                del self._next[topic]  # its partitions begin anew
            self._topics[topic] = topic_id
        self._next.setdefault(topic, {})[source.partition] = source.offset + 1

    def id_of(self, topic: str) -> str | None:
        """Which of the topics that have had this name was copied; None if that is not known."""
        return self._topics.get(topic)

    def next_of(self, topic: str, partition: int) -> int | None:
        """The next offset to copy; None if nothing was copied."""
        return self._next.get(topic, {}).get(partition)

    def save(self) -> None:
        """Write them."""
        self._store.write(KEY, msgspec.msgpack.encode(self._next))
        self._store.write(IDS, msgspec.msgpack.encode(self._topics))
