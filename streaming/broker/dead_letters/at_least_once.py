"""At-least-once dead-lettering of quorum queues (SEMANTICS section 18).

A dying copy stays in a buffer of its queue until every target has accepted its dead letter. What
is refused, or has nowhere to go, is tried again every `retry_ms`. Buffered copies are not ready,
cannot be consumed, and count towards the queue's limits (R-LEN-17).
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappush
from typing import TYPE_CHECKING

from streaming.broker.dead_letters.dead_lettering import MAX_DESCENDANTS, identity_of
from streaming.broker.events import Kind
from streaming.broker.message import NEVER, Copy
from streaming.broker.state.encoding import PageCodec
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.schema import Held
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard


HELD = PageCodec(Held)

MOST_IDLE_RETRIES = 10
"""When time moves far at once, a buffer that nothing leaves is tried so often at most (D11)."""

Descendants = Counter[tuple[int, int, int]]
"""By the identity of a message: how many dead letters it left in one instant."""


class AtLeastOnce:
    """The buffers of one shard's quorum queues.

    Attributes:
        dying: what has died and was not tried yet.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.dying: deque[tuple[Queue, Held]] = deque()

    def hold(self, queue: Queue, copy: Copy, reason: str) -> None:
        """Put a copy that was just taken from its queue into the buffer; `deliver` tries it."""
        queue.held += 1
        queue.held_bytes += copy.message.size
        self.dying.append((queue, Held(copy, reason, self._shard.second)))

    def deliver(self, descendants: Descendants) -> None:
        """Try what has died since the last call.

        Args:
            descendants: what each message left behind in this instant (D11).
        """
        for _ in range(len(self.dying)):
            queue, held = self.dying.popleft()
            self._try(queue, held, descendants)

    def retry(self, queue: Queue) -> None:
        """Try everything in the buffer of a queue once."""
        queue.retry_timer_ms = self._shard.now_ms + self._shard.config.dead_letter_retry_ms
        fifo = self.fifo(queue)
        descendants: Descendants = Counter()
        held = len(fifo)
        for _ in range(held):
            self._try(queue, fifo.popleft(), descendants)
        if fifo:
            if len(fifo) == held:
                idle_ms = MOST_IDLE_RETRIES * self._shard.config.dead_letter_retry_ms
                queue.retry_timer_ms = max(queue.retry_timer_ms, self._shard.heading_ms - idle_ms)
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
        for held in self.fifo(queue).take_all():
            self._release(queue, held.copy)
            yield held.copy

    def _release(self, queue: Queue, copy: Copy) -> None:
        queue.held -= 1
        queue.held_bytes -= copy.message.size

    def _try(self, queue: Queue, held: Held, descendants: Descendants) -> None:
        shard = self._shard
        copy = held.copy
        size = copy.message.size
        plan = shard.dead_lettering.make_plan(queue, copy.envelope, held.reason, held.died_at_s)
        shard.alternate_warnings.warn(plan.missing_alternates)
        missing = [target for target in plan.targets if target.name not in held.accepted]
        willing = [target for target in missing if not target.would_refuse(size)]
        asked = [
            target
            for target in missing
            if target in willing or target.settings.overflow == "reject-publish-dlx"
        ]
        identity = identity_of(copy.message)
        if descendants[identity] + len(asked) > MAX_DESCENDANTS:
            plan = plan.cut(())
            missing = willing = asked = []
        descendants[identity] += len(asked)
        done = plan.outcome == "cascade_limit" or (bool(plan.targets) and willing == missing)
        if done:
            self._release(queue, copy)
            shard.dead_lettering.record_delivered(queue, copy, plan)
        for target in asked:  # reject-publish-dlx refuses and yet dead-letters it (R-LEN-9)
            target.arrive(copy.message, plan.envelope, copy.copy_id, shard.now_ms, copy.failures)
        if not done:
            held.accepted += tuple(target.name for target in willing)
            self._keep(queue, held)
        queue.settled()

    def _keep(self, queue: Queue, held: Held) -> None:
        """Put a copy that could not be delivered into the buffer."""
        shard = self._shard
        if not held.held:
            held.held = True
            shard.events.add(Kind.HELD, queue.name, held.copy, 0, {"reason": held.reason})
        self.fifo(queue).append(held)
        if queue.retry_timer_ms == NEVER:
            queue.retry_timer_ms = shard.now_ms + shard.config.dead_letter_retry_ms
            heappush(shard.timers, (queue.retry_timer_ms, TimerKind.RETRY_HELD, queue.number))
