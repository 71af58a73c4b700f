"""Time to live: when a copy expires, and the death of heads that have (R-TTL-1 to R-TTL-12).

Only the head of a queue expires: what is behind one that has not expired stays (R-TTL-3).
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from streaming.broker.clock import Clock, TimerKind
from streaming.broker.message import NEVER, Copy, Envelope
from streaming.broker.queues import step_size
from streaming.broker.queues.ready_order import Order


class TimeToLive(ABC):
    """The part of a queue that lets copies expire.

    Attributes:
        ttl_ms: time to live of the queue's settings; None for none.
        may_expire: whether a copy in it may expire; always true of quorum queues.
        timer_ms: when the next sweep for expired copies is due; NEVER for none.
    """

    __slots__ = ("may_expire", "timer_ms", "ttl_ms")

    sweep_timer: ClassVar[TimerKind] = TimerKind.SWEEP_CLASSIC
    clock: Clock
    may_expire: bool
    number: int
    order: Order
    paused: bool
    ready: int
    timer_ms: int
    ttl_ms: int | None

    @abstractmethod
    def take(self) -> Copy:
        """Remove the head; the caller records what becomes of it, then calls `after_take`."""

    @abstractmethod
    def die(self, copy: Copy, reason: str, cause: str | None = None) -> None:
        """Let a copy die that was just removed from its place."""

    @abstractmethod
    def pause(self) -> None:
        """Go on in another step."""

    def settled(self) -> None:  # noqa: B027 - optional
        """Act after copies were settled or taken: a quorum queue may accept publishes again."""

    def deadline(self, envelope: Envelope, base_ms: int) -> int:
        """When a copy expires, by the shorter of its own time to live and the queue's (R-TTL-2).

        Args:
            base_ms: when its time to live begins, epoch milliseconds.
        """
        ttl_ms = self.ttl_ms
        envelope_ttl_ms = envelope.ttl_ms
        if envelope_ttl_ms is not None and (ttl_ms is None or envelope_ttl_ms < ttl_ms):
            ttl_ms = envelope_ttl_ms
        if ttl_ms is None:
            return NEVER
        self.may_expire = True
        return base_ms + ttl_ms if ttl_ms else self.clock.now_ms

    def sweep(self) -> None:
        """Let heads past their deadline die, and arm the timer for the next one (R-TTL-3).

        Very many continue later.
        """
        if self.paused:
            return
        now_ms = self.clock.now_ms
        order = self.order
        left = step_size.MAX_AT_ONCE
        while self.ready:
            head = order.head()
            deadline_ms = head.deadline_ms
            if deadline_ms > now_ms:
                if deadline_ms < self.timer_ms:
                    self.timer_ms = deadline_ms
                    self.clock.arm(deadline_ms, self.sweep_timer, self.number)
                return
            if not left:
                self.pause()
                return
            left -= 1
            self.take()
            self.die(head, "expired")

    def on_timer(self) -> None:
        """Do the sweep that was due."""
        self.timer_ms = NEVER
        self.sweep()
        self.settled()

    def after_take(self) -> None:
        """Let the next head expire if it is past its deadline (R-TTL-3)."""
        if self.ready:
            self.sweep()

    def is_expiring(self) -> bool:
        """Whether the head is one of very many expired ones, which die later."""
        return self.paused and self.order.head().deadline_ms <= self.clock.now_ms
