"""Whether the job still lives, judged by what the reader hears of it.

Time counts only while the reader polls: a turn of its loop adds what it took, but never more than
`MOST_A_TURN_S`. So a process that was stopped, or whose callback took long, hears what waits for it
in Kafka before it judges.
"""

SILENT_S = 4.0
"""So long nothing was heard of a job that beats once a second: who waits is told within 5 s."""

MOST_A_TURN_S = 1.0


class Pulse:
    """Counts the silence of a job.

    One whose heartbeat was never heard is not judged: older jobs have none, and an ACL may forbid
    to read it.

    Args:
        now_s: the monotonic clock, as in `turn`.
    """

    def __init__(self, now_s: float) -> None:
        self._turned_s = now_s
        self._silent_s = 0.0
        self._beats = False

    def heard(self) -> None:
        """The job said something, whatever it was."""
        self._silent_s = 0.0

    def beat(self) -> None:
        """Its heartbeat was heard."""
        self._beats = True
        self._silent_s = 0.0

    def unreadable(self) -> None:
        """The heartbeat cannot be read any more: it was forbidden, or its topic removed."""
        self._beats = False

    def turn(self, now_s: float) -> bool:
        """The reader has polled once more; True once in every `SILENT_S` of silence."""
        self._silent_s += min(now_s - self._turned_s, MOST_A_TURN_S)
        self._turned_s = now_s
        if not self._beats or self._silent_s < SILENT_S:
            return False
        self._silent_s = 0.0
        return True
