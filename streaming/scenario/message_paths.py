"""The lives of the messages, in short: from queue to queue, and how each copy ended there.

'order 2'  work (rejected) -> retry (expired) -> work (acked)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from streaming.broker.message import NO_COPY

if TYPE_CHECKING:
    from streaming.broker.message import Copy

READY = "still ready"
"""The end of a copy that has none: it can still be handed out."""

MOST_PATHS = 10
"""Shown of one message; a fan-out in a ring makes thousands."""


class Life(msgspec.Struct):
    """One copy: the queue it came into, when (epoch milliseconds), and how it ended there."""

    queue: str
    born_ms: int
    parent: int
    end: str = READY


class Lives:
    """All copies of a play, and the messages that never got as far as a queue."""

    def __init__(self) -> None:
        self._copies: dict[int, Life] = {}
        self._children: dict[int, list[int]] = {}
        self._first: dict[int, list[int]] = {}
        self._elsewhere: dict[int, list[str]] = {}
        self._refused: dict[int, list[str]] = {}

    def born(self, copy: Copy, queue: str, at_ms: int) -> None:
        """A copy came into a queue."""
        self._copies[copy.copy_id] = Life(queue, at_ms, copy.parent_copy_id)
        if copy.parent_copy_id == NO_COPY:
            self._first.setdefault(copy.message.offset, []).append(copy.copy_id)
        else:
            self._children.setdefault(copy.parent_copy_id, []).append(copy.copy_id)

    def is_known(self, copy: Copy) -> bool:
        """Whether the copy was born; one that a queue turned away never was."""
        return copy.copy_id in self._copies

    def now(self, copy: Copy, end: str) -> None:
        """How things stand with a copy from now on."""
        self._copies[copy.copy_id].end = end

    def no_queue(self, offset: int, what: str) -> None:
        """A message, or one of its copies, did not get into a queue."""
        self._elsewhere.setdefault(offset, []).append(what)

    def refused(self, parent: Copy, queue: str) -> None:
        """The dead letter of a copy was refused by a queue."""
        self._refused.setdefault(parent.copy_id, []).append(queue)

    def born_ms(self, copy: Copy) -> int:
        """When a copy came into its queue, epoch milliseconds."""
        return self._copies[copy.copy_id].born_ms

    def of_message(self, offset: int) -> Iterator[str]:
        """The ways of one message, a line each."""
        count = 0
        for way in self._ways(offset):
            count += 1
            if count <= MOST_PATHS:
                yield way
        if count > MOST_PATHS:
            yield f"... and {count - MOST_PATHS} more ways"
        if not count:
            yield "nowhere"

    def _ways(self, offset: int) -> Iterator[str]:
        work = [(copy_id, "") for copy_id in reversed(self._first.get(offset, []))]
        while work:
            copy_id, before = work.pop()
            life = self._copies[copy_id]
            here = f"{before}{life.queue!r} ({life.end})"
            children = self._children.get(copy_id, [])
            refused = self._refused.get(copy_id, [])
            yield from (f"{here} -> {queue!r} (refused)" for queue in refused)
            if not children and not refused:
                yield here
            work += [(child, f"{here} -> ") for child in reversed(children)]
        yield from self._elsewhere.get(offset, [])
