"""Many small records in few state entries.

The records of queues (and of channels) rest in groups, so that ten thousand small active ones
cost eighty state calls, and idle ones none. A large record has an entry of its own. Each record is
stored with the time of its next timer, and the header keeps the earliest of each group, so that a
timer of a record at rest reads its group and nothing else.
"""

from collections.abc import Iterator

import msgspec

from streaming.broker.message import NEVER
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.store import StateStore

GROUP_BITS = 8
"""256 records per group: decoding that many takes as long as one call of Spark's state."""

LARGE_BYTES = 2048
"""A record above this size has an entry of its own."""

_Group = dict[
    int, tuple[int, bytes | None]
]  # number -> next timer, record (None: it has its own entry)
_decoder = msgspec.msgpack.Decoder(_Group)
_encoder = msgspec.msgpack.Encoder()


class RecordGroups:
    """Records by number, in groups.

    Args:
        prefix: of the state keys.
        timers: group -> earliest timer in it; kept in the shard's header.
    """

    def __init__(self, store: StateStore, prefix: str, timers: dict[int, int]) -> None:
        self._store = store
        self._prefix = prefix
        self.timers = timers
        self._groups: dict[int, _Group] = {}
        self._changed: set[int] = set()

    def read(self, number: int) -> bytes | None:
        """A record, or None."""
        entry = self.group(number >> GROUP_BITS).get(number)
        if entry is None:
            return None
        if entry[1] is None:
            data = self._store.read(f"{self._prefix}r{number}")
            assert data is not None, f"record {self._prefix}r{number} is missing"
            return data
        return entry[1]

    def write(self, number: int, record: bytes, next_timer_ms: int) -> None:
        """Set a record; it reaches the store with `save`."""
        group_number = number >> GROUP_BITS
        group = self.group(group_number)
        before = group.get(number)
        large = len(record) > LARGE_BYTES
        if large:
            self._store.write(f"{self._prefix}r{number}", record)
        elif before is not None and before[1] is None:
            self._store.delete(f"{self._prefix}r{number}")
        entry = (next_timer_ms, None if large else record)
        if entry != before:
            group[number] = entry
            self._changed.add(group_number)

    def delete(self, number: int) -> None:
        """Delete a record."""
        group_number = number >> GROUP_BITS
        before = self.group(group_number).pop(number, None)
        if before is not None:
            self._changed.add(group_number)
            if before[1] is None:
                self._store.delete(f"{self._prefix}r{number}")

    def group(self, group_number: int) -> _Group:
        """The stored records of a group: number -> next timer, record."""
        group = self._groups.get(group_number)
        if group is None:
            data = self._store.read(f"{self._prefix}g{group_number}")
            group = {} if data is None else _decoder.decode(unpack(data))
            self._groups[group_number] = group
        return group

    def timers_in(self, group_number: int) -> Iterator[tuple[int, int]]:
        """Yield the stored records of a group that have a timer: number, and when it is due."""
        for number, (due_ms, _record) in self.group(group_number).items():
            if due_ms != NEVER:
                yield number, due_ms

    def drop_empty(self) -> None:
        """Forget groups without records: those of the store are as they were read."""
        for number in [number for number, group in self._groups.items() if not group]:
            if number not in self._changed:
                del self._groups[number]

    def save(self) -> None:
        """Write the groups that changed."""
        for group_number in sorted(self._changed):
            group = self._groups[group_number]
            key = f"{self._prefix}g{group_number}"
            if group:
                self._store.write(key, pack(_encoder.encode(group)))
                earliest = min(next_timer_ms for next_timer_ms, _record in group.values())
            else:
                self._store.delete(key)
                earliest = NEVER
            if earliest == NEVER:
                self.timers.pop(group_number, None)
            else:
                self.timers[group_number] = earliest
        self._changed.clear()
