"""The copies that a quorum queue holds until every target has their dead letters (R-ALO)."""

from collections.abc import Iterator
from typing import Final

from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.events import Kind
from streaming.broker.message import NEVER, Copy
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.pages import PageCodec
from streaming.broker.state.schema import FifoRecord, Held, QueueRecord

HELD: Final = PageCodec(Held)


class HeldCopies:
    """The copies that died in one queue and are held there, and the timer that retries them.

    One whose dead letter is being delivered for the first time counts, and is not in the buffer.

    Attributes:
        count, bytes: the copies, and their bodies' bytes.
        retry_timer_ms: when the next retry is due; NEVER for none.
    """

    __slots__ = (
        "_context",
        "_fifo",
        "_queue_name",
        "_queue_number",
        "bytes",
        "count",
        "retry_timer_ms",
    )

    def __init__(
        self, context: ShardContext, queue_number: int, queue_name: str, record: QueueRecord
    ) -> None:
        self._queue_number = queue_number
        self._queue_name = queue_name
        self.count = record.held
        self.bytes = record.held_bytes
        self.retry_timer_ms = record.retry_timer_ms
        self._fifo: Fifo[Held] | None = None
        if record.held_fifo is not None:
            self._fifo = Fifo(context.store, f"h{queue_number}", record.held_fifo, HELD)

    def take_part(self, context: ShardContext) -> None:
        """Take part in a batch."""
        self._context = context

    @property
    def has_buffer(self) -> bool:
        """Whether any copy was ever put into the buffer, as far as this batch knows."""
        return self._fifo is not None

    @property
    def fifo(self) -> Fifo[Held]:
        """The buffer, oldest first."""
        if self._fifo is None:
            self._fifo = Fifo(self._context.store, f"h{self._queue_number}", None, HELD)
        return self._fifo

    def add(self, copy: Copy) -> None:
        """Count a copy as held."""
        self.count += 1
        self.bytes += copy.message.size

    def release(self, copy: Copy) -> None:
        """Count a copy as held no more."""
        self.count -= 1
        self.bytes -= copy.message.size

    def keep(self, held: Held) -> None:
        """Put a copy that could not be dead-lettered into the buffer, and arm the retry."""
        context = self._context
        if not held.held:
            held.held = True
            detail = {"reason": held.reason}
            if held.cause is not None:
                detail["cause"] = held.cause
            context.events.add(Kind.HELD, self._queue_name, held.copy, 0, detail)
        self.fifo.append(held)
        if self.retry_timer_ms == NEVER:
            self.arm_retry(context.clock.now_ms + context.config.dead_letter_retry_ms)

    def arm_retry(self, due_ms: int) -> None:
        """Set the timer that retries held copies."""
        self.retry_timer_ms = due_ms
        self._context.clock.arm(due_ms, TimerKind.RETRY_HELD, self._queue_number)

    def take_all(self) -> Iterator[Held]:
        """Empty the buffer, because nothing delivers them any more (R-ALO-6, R-ALO-7)."""
        for held in self.fifo.take_all() if self.count else ():
            self.release(held.copy)
            yield held
        self.retry_timer_ms = NEVER

    def save(self) -> FifoRecord | None:
        """Write the pages of the buffer and return its record. Do not use it afterwards."""
        return None if self._fifo is None else self._fifo.save()
