"""Whether a front that follows a log may lead it: nobody who leads was heard for long enough.

    a heartbeat of the newest epoch    its leader is there, or has said that it ends
    a record of it in the log          its leader is there, whatever becomes of its heartbeats
    an own pause                       nobody could be heard meanwhile

A front that took over and was replaced without hearing the other one waits twice as long the next
time: otherwise two would replace each other without an end while heartbeats do not arrive.
"""

import logging
from typing import Final

from streaming.sequencer.leader_heartbeats import BEAT_S, Leader

HEAR_LEADER_S: Final = 3 * BEAT_S
"""How long a front listens in any case for a leader that has not said that it ends: when that was
heard before the front began is known by the clock of its host alone, which may be another."""

_MAX_DOUBLINGS: Final = 7

logger = logging.getLogger(__name__)


def deaf_since_s(heard_s: float, begin_s: float, now_s: float, takeover_s: float) -> float:
    """When a front that was busy could last not hear a leader; -inf: it was not deaf.

    Meanwhile Kafka may not have answered, or it slept: then a leader that was heard before is not
    silent.

    Args:
        heard_s: when a leader was heard.
        begin_s: when that began.
    """
    is_slow = now_s - begin_s > takeover_s / 2
    was_there = heard_s > begin_s - takeover_s
    return now_s if is_slow and was_there else float("-inf")


class Silence:
    """How long nobody was heard to lead a log.

    Args:
        takeover_s: how long a leader must be silent.
        begin_s: when the front began to read its log; it is read now.
        losses: how often in a row the front was replaced by one that it did not hear; None: it may
            lead before it has listened.
    """

    def __init__(
        self,
        takeover_s: float,
        leader: Leader | None,
        begin_s: float,
        now_s: float,
        losses: int | None = None,
    ) -> None:
        self._takeover_s = takeover_s
        self._patience_s = takeover_s * float(1 << min(losses or 0, _MAX_DOUBLINGS))
        self._log_s = float("-inf") if losses is None else now_s
        self._deaf_s = float("-inf")
        self._begin_s = self._looked_s = begin_s
        self.look(leader, now_s)

    def look(self, leader: Leader | None, now_s: float) -> None:
        """Note that it looks for the leader, as it does again and again."""
        heard_s = max(self._log_s, float("-inf") if leader is None else leader.heard_s)
        deaf_s = deaf_since_s(heard_s, self._looked_s, now_s, self._takeover_s)
        self._deaf_s = max(self._deaf_s, deaf_s)
        self._looked_s = now_s

    def is_heard(self) -> None:
        """Note that heartbeats of the newest epoch arrive."""
        self._patience_s = self._takeover_s

    def was_deaf(self, now_s: float) -> None:
        """Note that nobody could be heard until now."""
        self._deaf_s = now_s

    def read(self, now_s: float) -> None:
        """Note that the leader has written to the log."""
        self._log_s = now_s

    def is_over(self, leader: Leader | None, epoch: int, now_s: float) -> bool:
        """Whether the front may lead.

        Args:
            epoch: the newest of the log.
        """
        if now_s - self._deaf_s < self._takeover_s:
            return False
        if leader is not None and leader.beat.epoch >= epoch:
            if leader.beat.ends:
                return True
            if now_s - leader.heard_s <= self._takeover_s or now_s - self._begin_s < HEAR_LEADER_S:
                return False
        return now_s - self._log_s > self._patience_s


class SaidOrNot:
    """Logs when the heartbeats of a front do not come to Kafka, and when they do again.

    After a pause of the front itself, Kafka has as long to take them as at the beginning.

    Args:
        after_s: how long that is expected at times.
    """

    def __init__(self, topic: str, after_s: float) -> None:
        self._topic = topic
        self._after_s = after_s
        self._since_s = 0.0
        self._looked_s: float | None = None
        self._is_mute = False

    def update(self, said_s: float | None, now_s: float, *, leads: bool = True) -> None:
        """Note, many times in `after_s`, when Kafka has taken the newest heartbeat.

        Args:
            leads: whether the front sends some.
        """
        pause_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        if pause_s > self._after_s:
            logger.warning(
                "this front did not come to its regular work for %.1f s: it was stopped, the "
                "machine was busy, or something took that long%s",
                *(pause_s, ". A standby may have replaced it" if leads else ""),
            )
        if self._looked_s is None or pause_s > self._after_s or not leads:
            self._since_s = now_s
        self._looked_s = now_s
        if not leads:
            return
        is_mute = now_s - max(self._since_s, said_s or 0.0) > self._after_s
        if is_mute and not self._is_mute:
            logger.warning(
                "Kafka does not take heartbeats in %s: a standby may replace this front. Does it "
                "answer, is the topic there, and may the front write to it?",
                self._topic,
            )
        elif self._is_mute and not is_mute:
            logger.warning("Kafka takes heartbeats in %s again", self._topic)
        self._is_mute = is_mute
