"""Whether the job is alive, by what the reader reads."""

import time

SILENT_S = 4.0
"""A job whose heartbeat comes once a second is silent after this; callers hear of it within 5 s."""
MAX_TURN_S = 1.0


class Liveness:
    """How long the job has been silent.

    Silence counts only while the reader polls: each turn of its loop adds at most `MAX_TURN_S`. So
    a process that was stopped, or whose callback was slow, first reads what Kafka kept for it.
    A job whose heartbeat was never read is never silent: older jobs have none, and an ACL may
    forbid it.

    Args:
        now_s: an instant of the monotonic clock, as everywhere here.

    Attributes:
        heard_s: when the last record of the outbound topic, repeats included, was read.
    """

    def __init__(self, now_s: float) -> None:
        self.heard_s = now_s
        self._turned_s = now_s
        self._silent_s = 0.0
        self._has_heartbeat = False

    @property
    def is_alive(self) -> bool:
        """Whether the outbound topic had a record in the last `SILENT_S`."""
        return time.monotonic() - self.heard_s <= SILENT_S

    def heard(self, now_s: float) -> None:
        """Note a record of the outbound topic."""
        self.heard_s = now_s
        self._silent_s = 0.0

    def heartbeat(self) -> None:
        """Note a heartbeat."""
        self._has_heartbeat = True
        self._silent_s = 0.0

    def heartbeat_unreadable(self) -> None:
        """Note that the heartbeat topic was forbidden or removed."""
        self._has_heartbeat = False

    def turn(self, now_s: float) -> bool:
        """Note a turn of the reader's loop.

        Returns:
            Whether the job is silent; True once per `SILENT_S` of silence.
        """
        self._silent_s += min(now_s - self._turned_s, MAX_TURN_S)
        self._turned_s = now_s
        if not self._has_heartbeat or self._silent_s < SILENT_S:
            return False
        self._silent_s = 0.0
        return True
