"""The path of each message: from queue to queue, and how each copy ended there.

'order 2'  work (rejected) -> retry (expired) -> work (acked)
"""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from streaming.broker.message import NO_COPY, Copy

READY = "still ready"
"""The state of a copy that can still be delivered."""

MAX_PATHS = 10
"""Paths shown for one message; a fan-out in a ring makes thousands."""


class CopyPath(msgspec.Struct):
    """One copy: its queue, when it entered (epoch milliseconds), and how it ended there."""

    queue: str
    born_ms: int
    end: str = READY


class MessagePaths:
    """All copies of a play, and the messages that never reached a queue."""

    def __init__(self) -> None:
        self._copies: dict[int, CopyPath] = {}
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        self._first: defaultdict[int, list[int]] = defaultdict(list)
        self._elsewhere: defaultdict[int, list[str]] = defaultdict(list)
        self._refused: defaultdict[int, list[str]] = defaultdict(list)

    def born(self, copy: Copy, queue: str, at_ms: int) -> None:
        """Note that a copy entered a queue."""
        self._copies[copy.copy_id] = CopyPath(queue, at_ms)
        if copy.parent_copy_id == NO_COPY:
            self._first[copy.message.offset].append(copy.copy_id)
        else:
            self._children[copy.parent_copy_id].append(copy.copy_id)

    def is_known(self, copy: Copy) -> bool:
        """Whether the copy entered a queue; one that the queue rejected did not."""
        return copy.copy_id in self._copies

    def now(self, copy: Copy, end: str) -> None:
        """Set the state of a copy."""
        self._copies[copy.copy_id].end = end

    def no_queue(self, offset: int, what: str) -> None:
        """Note that a message, or one of its copies, did not enter a queue."""
        self._elsewhere[offset].append(what)

    def refused(self, parent: Copy, queue: str) -> None:
        """Note that a queue refused the dead letter of a copy."""
        self._refused[parent.copy_id].append(queue)

    def born_ms(self, copy: Copy) -> int:
        """When a copy entered its queue, epoch milliseconds."""
        return self._copies[copy.copy_id].born_ms

    def of_message(self, offset: int) -> list[str]:
        """The paths of one message, one line each."""
        paths = list(self._paths(offset))
        if len(paths) > MAX_PATHS:
            return [*paths[:MAX_PATHS], f"... and {len(paths) - MAX_PATHS} more paths"]
        return paths or ["nowhere"]

    def _paths(self, offset: int) -> Iterator[str]:
        work = [(copy_id, "") for copy_id in reversed(self._first[offset])]
        while work:
            copy_id, before = work.pop()
            copy = self._copies[copy_id]
            here = f"{before}{copy.queue!r} ({copy.end})"
            children, refused = self._children[copy_id], self._refused[copy_id]
            yield from (f"{here} -> {queue!r} (refused)" for queue in refused)
            if not children and not refused:
                yield here
            work += [(child, f"{here} -> ") for child in reversed(children)]
        yield from self._elsewhere[offset]
