"""Whether the job is alive, by what the reader reads."""

import time
from datetime import UTC, datetime

SILENT_S = 4.0
"""A job whose heartbeat comes once a second is silent after this; callers hear of it within 5 s."""
MAX_TURN_S = 1.0


class Liveness:
    """How long the job has been silent.

    Silence counts only while the reader polls: each turn of its loop adds at most `MAX_TURN_S`. So
    a process that was stopped, or whose callback was slow, first reads what Kafka kept for it.
    A job whose heartbeat was never read is never silent: an ACL may forbid to read it.

    Args:
        now_s: an instant of the monotonic clock, as everywhere here.

    Attributes:
        heard_s: when the last record of the outbound topic, repeats included, was read.
        can_hear: whether the heartbeat topic exists and may be read.
        heartbeat_ms: Kafka's timestamp of the last heartbeat, epoch milliseconds; None without one.
    """

    def __init__(self, now_s: float) -> None:
        self.heard_s = now_s
        self.can_hear = False
        self.heartbeat_ms: int | None = None
        self._alive_s: float | None = None  # when a job was last known to run
        self._turned_s = now_s
        self._silent_s = 0.0
        self._has_heartbeat = False

    @property
    def is_alive(self) -> bool:
        """Whether the outbound topic had a record in the last `SILENT_S`."""
        return time.monotonic() - self.heard_s <= SILENT_S

    @property
    def is_running(self) -> bool:
        """Whether a job was heard, by heartbeat or record, in the last `SILENT_S`."""
        return self._alive_s is not None and time.monotonic() - self._alive_s <= SILENT_S

    def absence(self) -> str:
        """Say since when no job has been heard; empty if one is, or if it cannot be told."""
        if not self.can_hear or self.is_running:
            return ""
        if self.heartbeat_ms is None:
            return "no job has been heard recently"
        return f"no job has been heard since {local_time(self.heartbeat_ms)}"

    def heard(self, now_s: float) -> None:
        """Note a record of the outbound topic."""
        self.heard_s = self._alive_s = now_s
        self._silent_s = 0.0

    def heartbeat(self, now_s: float, at_ms: int, wall_ms: int) -> None:
        """Note a heartbeat. The first may be an old one, which Kafka kept.

        Args:
            at_ms: Kafka's timestamp of it, epoch milliseconds.
            wall_ms: the time of this machine, epoch milliseconds.
        """
        if self.heartbeat_ms is not None or abs(wall_ms - at_ms) <= SILENT_S * 1000:
            self._alive_s = now_s
        self.heartbeat_ms = at_ms
        self._has_heartbeat = True
        self._silent_s = 0.0

    def heartbeat_unreadable(self) -> None:
        """Note that the heartbeat topic was forbidden or removed."""
        self._has_heartbeat = self.can_hear = False

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


def local_time(at_ms: int, now: datetime | None = None) -> str:
    """Return an instant as local time with its zone, and with its date unless that is today's."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    today = (now or datetime.now(UTC)).astimezone().date()
    return f"{at:%H:%M:%S %Z}" if at.date() == today else f"{at:%Y-%m-%d %H:%M:%S %Z}"
