"""The expiry of a queue itself, after some time without use (R-QEXP-1 to R-QEXP-3).

Who holds messages of a quorum queue uses it, too (R-QEXP-5, `quorum.py`).
"""

from streaming.broker.clock import TimerKind
from streaming.broker.message import NEVER
from streaming.broker.queues.consumer_line import ConsumerLine
from streaming.broker.queues.time_to_live import TimeToLive


class QueueExpiry(TimeToLive):
    """The part of a queue that knows when it is to be deleted.

    Attributes:
        expires_ms: after how long without use; None for never.
        used_at_ms: last use in the sense of queue expiry (R-QEXP-2).
        expiry_timer_ms: when the next look is due; NEVER for none.
    """

    __slots__ = ("expires_ms", "expiry_timer_ms", "used_at_ms")

    expires_ms: int | None
    expiry_timer_ms: int
    line: ConsumerLine
    used_at_ms: int

    def touch(self) -> None:
        """Record a use: a get, a declaration, or the end of the last consumer (R-QEXP-2)."""
        self.used_at_ms = self.clock.now_ms
        self.arm_expiry()

    def expires_at_ms(self) -> int:
        """When it is to be deleted for lack of use; NEVER while it has a consumer (R-QEXP-3)."""
        if self.expires_ms is None or self.line.consumers:
            return NEVER
        return self.used_at_ms + self.expires_ms

    def arm_expiry(self) -> None:
        """Make sure that a timer is set not later than `expires_at_ms`."""
        due_ms = self.expires_at_ms()
        if due_ms < self.expiry_timer_ms:
            self.expiry_timer_ms = due_ms
            self.clock.arm(due_ms, TimerKind.EXPIRE_QUEUE, self.number)
