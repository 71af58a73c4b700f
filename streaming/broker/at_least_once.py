"""At-least-once dead-lettering of quorum queues (SEMANTICS section 18).

A dying copy stays in a buffer of its queue until every target has accepted its dead letter. What is
refused, or has nowhere to go, is tried again every `retry_ms`. Buffered copies are not ready, cannot
be consumed, and count towards the queue's limits (R-LEN-17).
"""

from __future__ import annotations

from collections import deque
from heapq import heappush
from typing import TYPE_CHECKING

import msgspec

from streaming.broker.encoding import PageCodec
from streaming.broker.events import Kind
from streaming.broker.message import NEVER, Copy
from streaming.broker.pages import Fifo
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.broker.queue import Queue
    from streaming.broker.shard import Shard


class Held(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A copy in the buffer: why and when (epoch seconds) it died, and who has its dead letter already."""

    copy: Copy
    reason: str
    died_at_s: int
    accepted: tuple[str, ...] = ()
    held: bool = False


HELD = PageCodec(Held)


class AtLeastOnce:
    """The buffers of one shard's quorum queues."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._dying: deque[tuple[Queue, Held]] = deque()

    def hold(self, queue: Queue, copy: Copy, reason: str) -> None:
        """Put a copy that was just taken from its queue into the buffer; `deliver` tries it."""
        queue.held += 1
        queue.held_bytes += copy.message.size
        self._dying.append((queue, Held(copy, reason, self._shard.second)))

    def deliver(self) -> bool:
        """Try what has died since the last call; False if there was nothing."""
        if not self._dying:
            return False
        while self._dying:
            queue, held = self._dying.popleft()
            self._try(queue, held)
        return True

    def retry(self, queue: Queue) -> None:
        """Try everything in the buffer of a queue once."""
        queue.retry_timer_ms = self._shard.now_ms + self._shard.config.dead_letter_retry_ms
        fifo = self.fifo(queue)
        for _ in range(len(fifo)):
            self._try(queue, fifo.popleft())
        if fifo:
            heappush(self._shard.timers, (queue.retry_timer_ms, TimerKind.RETRY_HELD, queue.number))
        else:
            queue.retry_timer_ms = NEVER

    def fifo(self, queue: Queue) -> Fifo[Held]:
        """The buffer of a queue."""
        if not isinstance(queue.held_fifo, Fifo):
            queue.held_fifo = Fifo(self._shard.store, f"h{queue.number}", queue.held_fifo, HELD)
        return queue.held_fifo

    def take_all(self, queue: Queue) -> Iterator[Copy]:
        """Empty the buffer of a queue that is being deleted (R-ALO-6)."""
        dying = [held.copy for owner, held in self._dying if owner is queue]
        self._dying = deque(entry for entry in self._dying if entry[0] is not queue)
        for copy in (*(held.copy for held in self.fifo(queue).take_all()), *dying):
            self._release(queue, copy)
            yield copy

    def _release(self, queue: Queue, copy: Copy) -> None:
        queue.held -= 1
        queue.held_bytes -= copy.message.size

    def _try(self, queue: Queue, held: Held) -> None:
        shard = self._shard
        copy = held.copy
        size = copy.message.size
        plan = shard.dead_lettering.make_plan(queue, copy.envelope, held.reason, held.died_at_s)
        unwilling = {
            target.name
            for target in plan.targets
            if target.would_refuse(size) and target.settings.overflow != "reject-publish-dlx"
        }
        if plan.targets and not unwilling:
            self._release(queue, copy)
            shard.dead_lettering.record_delivered(queue, copy, plan)
        for target in plan.targets:
            if target.name not in unwilling and target.name not in held.accepted:
                target.arrive(copy.message, plan.envelope, copy.copy_id, shard.now_ms)
        if plan.targets and not unwilling:
            queue.settled()
            return
        held.accepted = tuple(
            target.name for target in plan.targets if target.name not in unwilling
        )
        if not held.held:
            held.held = True
            shard.events.add(Kind.HELD, queue.name, copy, 0, {"reason": held.reason})
        self.fifo(queue).append(held)
        if queue.retry_timer_ms == NEVER:
            queue.retry_timer_ms = shard.now_ms + shard.config.dead_letter_retry_ms
            heappush(shard.timers, (queue.retry_timer_ms, TimerKind.RETRY_HELD, queue.number))
