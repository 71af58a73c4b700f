"""Classic queues: what happens on arrival, on return, and when limits change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streaming.broker.events import ENQUEUED
from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.queues.order import ClassicOrder, PriorityOrder
from streaming.broker.queues.queue import ACCEPTED, REFUSED, TURNED_AWAY, Queue
from streaming.broker.state.schema import QueueRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.broker.shard import Shard
    from topology.declarations import Queue as Declaration
    from topology.policies import QueueSettings


_make_copy: Final = Copy
"""As a constant of this module: compiled code need not look it up by name for each message."""


class ClassicQueue(Queue):
    """A classic queue, with priorities if it was declared with `x-max-priority`."""

    __slots__ = ("by_arrival", "drops_head", "refuses")

    def __init__(
        self,
        shard: Shard,
        number: int,
        declaration: Declaration,
        settings: QueueSettings,
        record: QueueRecord,
    ) -> None:
        super().__init__(shard, number, declaration, record)
        prefix = f"p{number}"
        top = settings.max_priority
        self.by_arrival: ClassicOrder | None = None  # its order, if it has no priorities
        if top is not None:
            self.order = PriorityOrder(shard.store, prefix, top, record.levels)
        else:
            level = record.levels[0] if record.levels else None
            self.order = self.by_arrival = ClassicOrder(shard.store, prefix, level)
        self.apply_settings(settings)

    def apply_settings(self, settings: QueueSettings) -> None:
        """See `Queue`."""
        super().apply_settings(settings)
        limited = settings.max_length is not None or settings.max_length_bytes is not None
        self.drops_head = limited and settings.overflow == "drop-head"
        self.refuses = limited and settings.overflow != "drop-head"

    def would_refuse(self, size: int) -> bool:
        """R-LEN-8: appending would exceed a limit."""
        return self.refuses and (
            self.ready >= self.max_length or self.ready_bytes + size > self.max_bytes
        )

    def arrive(
        self,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        base_ms: int,
        failures: int = 0,
    ) -> int:
        """R-QUEUE-4: refuse, hand over, append, drop the head, expire; in that order."""
        if self.refuses and self.would_refuse(message.size):
            if self.settings.overflow == "reject-publish-dlx":
                self.shard.dead_lettering.die_on_arrival(
                    self, message, envelope, parent_copy_id, failures
                )
                return TURNED_AWAY
            return REFUSED
        if self.ttl_ms is None and envelope.ttl_ms is None:
            # Nearly every message comes here twice: this is `new_copy`, without a deadline.
            events = self.events
            kinds = events.kinds
            position = self.next_position
            self.next_position = position + 1
            copy_id = events.first_seq + len(kinds)
            copy = _make_copy(copy_id, message, envelope, position, NEVER, parent_copy_id)
            kinds.append(ENQUEUED)
            events.queues.append(self.name)
            events.copies.append(copy)
            events.numbers.append(position)
        else:
            copy = self.new_copy(message, envelope, parent_copy_id, base_ms)
        if failures:
            copy.failures = failures
        if self.waiting and not self.ready:
            self.shard.consumers.hand_over(self, copy)
            return ACCEPTED
        by_arrival = self.by_arrival
        if by_arrival is None:
            self.order.push(copy)
        else:  # and this is `push`
            fifo = by_arrival.fifo
            back = fifo.back
            back.append(copy)
            if len(back) >= fifo.spill_copies:
                fifo.spill()
        self.ready = ready = self.ready + 1
        self.ready_bytes += message.size
        if self.drops_head and (ready > self.max_length or self.ready_bytes > self.max_bytes):
            self._drop_head()
            if self.mortal:
                self.sweep()
        elif ready == 1 and copy.deadline_ms != NEVER:
            self.sweep()
        return ACCEPTED

    def take(self) -> Copy:
        """See `Queue`."""
        by_arrival = self.by_arrival
        if by_arrival is None or by_arrival.returned:
            copy = self.order.pop()
        else:  # this is `pop`
            fifo = by_arrival.fifo
            copy = (fifo.front or fifo.fill()).popleft()
        self.ready -= 1
        self.ready_bytes -= copy.message.size
        return copy

    def _drop_head(self) -> None:
        """R-LEN-1, R-LEN-6: the head goes until the limits hold."""
        while self.ready > self.max_length or self.ready_bytes > self.max_bytes:
            head = self.take()
            self.shard.dead_lettering.die(self, head, "maxlen")

    def put_back(self, copies: Iterable[Copy], *, explicitly: bool) -> None:  # noqa: ARG002 - quorum's
        """R-SET-2, R-LEN-4, R-TTL-5: back to their places, then limits, expiry, consumers."""
        for copy in copies:
            self.order.put_back(copy)
            self.ready += 1
            self.ready_bytes += copy.message.size
            self.shard.note_requeued(self, copy)
        if self.drops_head:
            self._drop_head()
        self.sweep()
        self.shard.consumers.serve(self)

    def place(self, copy: Copy) -> tuple[int, int]:
        """See `Queue`."""
        top = self.settings.max_priority
        return (0 if top is None else -min(copy.envelope.priority, top), copy.position)

    def settings_changed(self) -> None:
        """R-POL-8: trim at once; deadlines stay; the lease of `expires` starts anew."""
        if self.drops_head:
            self._drop_head()
        self.timer_ms = NEVER
        self.sweep()
        self.touch()
