"""Length limits: what a full queue refuses, drops, or blocks (R-LEN-1 to R-LEN-19).

    classic, drop-head        heads die until the limits hold
    classic, reject-publish   a message that would exceed a limit is refused; with -dlx it is also
                              dead-lettered (R-LEN-9, `ClassicQueue.arrive`)
    quorum, drop-head         heads die until the limits hold; the last one is dead-lettered first
    quorum, reject-publish    a queue above its limits blocks the publishers that it knows, until it
                              has fallen to the soft limit

Limits look at ready copies only (R-LEN-3), those of a quorum queue at held ones too (R-LEN-17).
"""

from streaming.broker.channels.publishers import Publisher
from streaming.broker.queues.queue import Queue
from topology.policies import QueueSettings

SOFT_LIMIT = (4, 5)
"""Blocked publishers go on when a queue falls to this fraction of its limits (R-LEN-15)."""


class ClassicLengthLimits(Queue):
    """What a classic queue does when it is full.

    Attributes:
        drops_head, refuses: what it does then; both false without limits.
    """

    __slots__ = ("drops_head", "refuses")

    def apply_settings(self, settings: QueueSettings) -> None:
        """Set the settings in force, without acting on them (see `settings_changed`)."""
        super().apply_settings(settings)
        limited = settings.has_length_limit
        self.drops_head = limited and settings.overflow == "drop-head"
        self.refuses = limited and settings.overflow != "drop-head"

    def would_refuse(
        self,
        size: int,
        publisher: Publisher | None = None,  # noqa: ARG002 - quorum's
    ) -> bool:
        """Whether the message would exceed a limit (R-LEN-8)."""
        return self.refuses and (
            self.ready >= self.max_length or self.ready_bytes + size > self.max_bytes
        )

    def may_ever_hold(self, size: int) -> bool:
        """Whether a message of that size would be accepted at least by an empty queue."""
        return not self.refuses or (self.max_length > 0 and size <= self.max_bytes)

    def drop_head(self) -> None:
        """Let heads die until the limits hold (R-LEN-1, R-LEN-6)."""
        while self.ready > self.max_length or self.ready_bytes > self.max_bytes:
            self.die(self.take(), "maxlen")


class QuorumLengthLimits(Queue):
    """What a quorum queue does when it is full.

    With `reject-publish`, a message that makes it full blocks all its publishers until it falls to
    the soft limit (R-LEN-15). A change of its policy leaves them blocked (R-LEN-18).

    Attributes:
        limited: whether it has a length limit.
        rejects: whether it has one and `reject-publish`.
    """

    __slots__ = ("limited", "rejects")

    def apply_settings(self, settings: QueueSettings) -> None:
        """Set the settings in force, without acting on them (see `settings_changed`)."""
        super().apply_settings(settings)
        self.limited = settings.has_length_limit
        self.rejects = settings.refuses_when_full

    def _over_limit(self) -> bool:
        """Whether a limit is exceeded; held copies count too (R-LEN-17)."""
        return (
            self.ready + self.held.count > self.max_length
            or self.ready_bytes + self.held.bytes > self.max_bytes
        )

    def would_refuse(
        self,
        size: int,  # noqa: ARG002 - only what is there counts
        publisher: Publisher | None = None,
    ) -> bool:
        """Whether it is full, or has blocked this publisher (R-LEN-18)."""
        if publisher is None:
            return self._is_full()
        return self.refuses_of(publisher)

    def _is_full(self) -> bool:
        """Whether it refuses every publisher."""
        return self.rejects and self._over_limit()

    def refuses_of(self, publisher: Publisher) -> bool:
        """Whether it refuses a message of this publisher, which is known from now on (R-LEN-18).

        Nobody needs to be known to a queue that cannot be full.
        """
        if not (self.limited or self.blocked):
            return False
        full = self._is_full()
        if full and not self.blocked:
            self._block()  # it was rebuilt
        return self.channels.publishers.refuses(self.number, publisher, full=full)

    def settled(self) -> None:
        """Drop heads, or block and unblock publishers (R-LEN-15, R-LEN-16, R-LEN-18)."""
        if self._over_limit():
            if self.rejects:
                self._block()
            else:
                self._drop_heads()
                self.sweep()
        if self.blocked:
            self._unblock_if_drained()

    def _block(self) -> None:
        """Block the publishers that are known."""
        self.channels.publishers.set_all(self.number, blocked=True)
        self.blocked = self.above_soft_limit = True

    def _unblock_if_drained(self) -> None:
        """Unblock all publishers if the queue fell to the soft limit, or lost its limits."""
        was_above = self.above_soft_limit
        if self.limited:
            self.above_soft_limit = not self._is_below_soft_limit()
            if not self.rejects or self.above_soft_limit or not was_above:
                return
        else:
            self.above_soft_limit = True
            if self.context.config.compat == "3.10":  # does not unblock them then
                return
        self.blocked = False
        self.channels.publishers.set_all(self.number, blocked=False)

    def _drop_heads(self) -> None:
        """Let heads die until the limits hold; the last one is dead-lettered first (R-LEN-16)."""
        deaths = self.deaths
        before = len(deaths)
        while self.ready and self._over_limit():
            self.die(self.take(), "maxlen")
        deaths.extend([deaths.pop() for _ in range(len(deaths) - before)])

    def _is_below_soft_limit(self) -> bool:
        """Whether it is at or below the soft limit (R-LEN-15)."""
        part, whole = SOFT_LIMIT
        return (
            self.ready + self.held.count <= self.max_length * part // whole
            and self.ready_bytes + self.held.bytes <= self.max_bytes * part // whole
        )
