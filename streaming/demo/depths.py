"""How full the queues are, followed event by event. For one shard, as the demo has."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from streaming.broker.events import ENDINGS, Kind

LEAVING: Final = frozenset(kind.name.lower() for kind in (*ENDINGS, Kind.HELD))
ENQUEUED: Final = Kind.ENQUEUED.name.lower()
DELIVERED: Final = Kind.DELIVERED.name.lower()
REQUEUED: Final = Kind.REQUEUED.name.lower()


class Depth(NamedTuple):
    """Of one queue."""

    ready: int = 0
    unacked: int = 0


class Move(NamedTuple):
    """An event of a copy, as `events` has it; of other events `copy_id` is None."""

    kind: str
    queue: str | None
    copy_id: int | None


class Depths:
    """Ready and unacked copies by queue."""

    def __init__(self) -> None:
        self._ready: dict[int, str] = {}
        self._unacked: dict[int, str] = {}

    def known(self, copies: Iterable[tuple[int, str, str]]) -> None:
        """Take over copies that are in queues already: copy_id, queue, `ready` or `unacked`."""
        for copy_id, queue, state in copies:
            (self._unacked if state == "unacked" else self._ready)[copy_id] = queue

    def follow(self, moves: Iterable[Move]) -> None:
        """Follow the events of a batch, in their order."""
        for kind, queue, copy_id in moves:
            if copy_id is None or queue is None:
                continue
            if kind in LEAVING:
                self._ready.pop(copy_id, None)
                self._unacked.pop(copy_id, None)
            elif kind == DELIVERED:
                self._ready.pop(copy_id, None)
                self._unacked[copy_id] = queue
            elif kind in {ENQUEUED, REQUEUED}:
                self._unacked.pop(copy_id, None)
                self._ready[copy_id] = queue

    def by_queue(self) -> dict[str, Depth]:
        """Every queue that has a message."""
        ready, unacked = Counter(self._ready.values()), Counter(self._unacked.values())
        return {name: Depth(ready[name], unacked[name]) for name in sorted({*ready, *unacked})}
