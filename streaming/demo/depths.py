"""How full the queues are and how many messages died, from the events of one shard."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from streaming.broker.events import ENDINGS, Kind

_LEAVING: Final = ENDINGS | {Kind.HELD}


class Depth(NamedTuple):
    """Number of messages in one queue."""

    ready: int = 0
    unacked: int = 0


class CopyEvent(NamedTuple):
    """A row of the table `events`; an event about no copy has no `copy_id`."""

    kind: str
    queue: str | None
    copy_id: int | None
    reason: str | None = None


class Depths:
    """Ready and unacked copies by queue; deaths by reason and by queue."""

    def __init__(self) -> None:
        self._ready: dict[int, str] = {}
        self._unacked: dict[int, str] = {}
        self.deaths: Counter[str] = Counter()
        self.died_in: Counter[str] = Counter()

    def load(self, copies: Iterable[tuple[int, str, str]]) -> None:
        """Add copies that are in queues already: copy_id, queue, `ready` or `unacked`."""
        for copy_id, queue, state in copies:
            (self._unacked if state == "unacked" else self._ready)[copy_id] = queue

    def apply(self, events: Iterable[CopyEvent]) -> None:
        """Apply the events of a batch, in their order."""
        for name, queue, copy_id, reason in events:
            if copy_id is None or queue is None:
                continue
            kind = Kind[name.upper()]
            if kind in _LEAVING:
                self._ready.pop(copy_id, None)
                self._unacked.pop(copy_id, None)
            elif kind == Kind.DELIVERED:
                self._ready.pop(copy_id, None)
                self._unacked[copy_id] = queue
            elif kind in {Kind.ENQUEUED, Kind.REQUEUED}:
                self._unacked.pop(copy_id, None)
                self._ready[copy_id] = queue
            if kind == Kind.DIED and reason is not None:
                self.deaths[reason] += 1
                self.died_in[queue] += 1

    def by_queue(self) -> dict[str, Depth]:
        """The depth of every queue that has a message."""
        ready, unacked = Counter(self._ready.values()), Counter(self._unacked.values())
        return {name: Depth(ready[name], unacked[name]) for name in sorted({*ready, *unacked})}
