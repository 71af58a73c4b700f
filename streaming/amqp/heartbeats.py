"""Heartbeats of a connection: when one is due, and when a client is silent for too long.

A client and the server agree on an interval. A client that sends nothing for two intervals is given
up. The server sends a heartbeat when it has sent nothing for half an interval.
"""

from collections.abc import Callable


class Heartbeats:
    """When the client and the server last sent something.

    Args:
        now_s: a clock that never goes back, in seconds.

    Attributes:
        interval_s: how often each side sends something, at least; 0 for no heartbeats.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.interval_s = 0
        self._now_s = now_s
        self._heard_s = self._spoke_s = now_s()
        self._is_unread = False

    def heard(self) -> None:
        """Note that the client does something."""
        self._heard_s = self._now_s()

    def spoke(self) -> None:
        """Note that something is sent."""
        self._spoke_s = self._now_s()

    def unread(self, *, unread: bool) -> None:
        """Note that the server cannot read the client now: its heartbeats cannot be seen."""
        self._is_unread = unread
        self.heard()

    def is_silent(self) -> bool:
        """Whether the client has sent nothing for too long."""
        silent_s = self._now_s() - self._heard_s
        return bool(self.interval_s) and silent_s >= 2 * self.interval_s and not self._is_unread

    def is_due(self) -> bool:
        """Whether a heartbeat is to be sent."""
        return bool(self.interval_s) and self._now_s() - self._spoke_s >= self.interval_s / 2

    def next_s(self) -> float:
        """When to look again."""
        if not self.interval_s:
            return float("inf")
        return min(self._heard_s + 2 * self.interval_s, self._now_s() + self.interval_s / 2)
