"""Heartbeats of a connection: when one is due, and when a client is silent for too long.

Each side is to be heard of in the interval that was agreed. A client is given up after two of them
in which nothing came from it; ours are sent after half of one in which nothing was sent.
"""

from collections.abc import Callable


class Heartbeats:
    """Who was heard of when.

    Args:
        now_s: a clock that never goes back, in seconds.

    Attributes:
        interval_s: how often each side is to be heard of; 0 for no heartbeats.
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
        """Whether the client was not heard of for too long."""
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
