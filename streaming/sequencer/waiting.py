"""Waits until nobody leads a log: what a front does before it leads it.

    heartbeats, records of the leader, own pauses --Silence--> nobody leads
    Kafka answers at once, and the log has nothing more    --> the front may lead

A Kafka that was away is heard again first: its leader has as long as ever to come back to it.

A front that is not a standby waits for a leader that is silent or has said that it ends, and for
Kafka; it refuses where another front leads.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from streaming.broker.sequence.log_fold import NO_EPOCH
from streaming.sequencer.leader_heartbeats import Leader, Leaders
from streaming.sequencer.log_reader import LogUnreadableError, RawRecord
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.settings import FrontSettings
from streaming.sequencer.takeover import Silence
from topology.errors import DlxError

FOLLOW_S: Final = 0.05
"""How often a standby that has read everything asks again."""

_PROMPT_S: Final = 1.0

logger = logging.getLogger(__name__)


class CannotLeadError(DlxError):
    """A vhost cannot be served here."""

    help_code = "kafka-unreachable"


class Log(Protocol):
    """The log of one vhost, as far as who waits for its lead needs it."""

    def read_on(self, timeout_s: float) -> Awaitable[list[RawRecord]]:
        """The next records; none if none comes in time."""

    def ends(self) -> Awaitable[tuple[int, int]]:
        """The offset of the oldest record, and that of the next one.

        Raises:
            LogUnreadableError: Kafka does not answer.
        """


class Waiting:
    """Waits for the lead of one log, and again after each loss of it.

    Args:
        leader: returns who was heard to lead the log, here or elsewhere.
        is_made_here: of a vhost that was made at run time: whether by this front, which leads it at
            once, or by another one, which has as long as ever to lead it.
    """

    def __init__(
        self,
        settings: FrontSettings,
        leaders: Leaders,
        leader: Callable[[], Leader | None],
        log: Log,
        *,
        is_made_here: bool | None = None,
    ) -> None:
        self._settings = settings
        self._leaders = leaders
        self._leader = leader
        self._log = log
        self._is_made_here = is_made_here
        self._lost_s = float("-inf")
        self._unheard_losses = 0

    def lost(self) -> None:
        """Note that another front leads now."""
        self._is_made_here = None
        self._lost_s = time.monotonic()
        self._unheard_losses += 1

    async def until_nobody_leads(self, vhost: LogVhost, opening_s: float) -> None:
        """Follow the log until no leader is heard, although Kafka answers.

        Args:
            opening_s: when the front began to read the log.

        Raises:
            CannotLeadError: another front leads, and this one is no standby.
            LogUnreadableError: the log cannot be read on.
        """
        standby = self._settings.standby
        takeover_s = self._settings.takeover_ms / 1000
        begin_s = time.monotonic()
        is_new = vhost.fold.epoch == NO_EPOCH
        must_listen = standby and not self._is_heard(vhost) and not is_new
        if self._is_made_here is not None:
            must_listen = not self._is_made_here
        losses = self._unheard_losses if must_listen else None
        is_said = is_away = False
        silence = Silence(takeover_s, self._leader(), opening_s, begin_s, losses)
        while True:
            if self._leaders.is_current and self._is_over(silence, vhost):
                asked_s = time.monotonic()
                end = await self._end_if_kafka_is_there()
                is_prompt = time.monotonic() - asked_s < _PROMPT_S
                if end is None or not is_prompt or is_away:
                    silence.was_deaf(time.monotonic())
                elif end <= vhost.position and self._is_over(silence, vhost):
                    return
                is_away = end is None
            if time.monotonic() - begin_s > 2 * takeover_s and not standby:
                self._refuse_other_leader(vhost.name, takeover_s)
                if not is_said:
                    is_said = True
                    logger.warning(
                        "vhost %s: it waits for Kafka, which does not say at once who leads",
                        vhost.name,
                    )
            records = await self._log.read_on(FOLLOW_S)
            counted = vhost.counted
            vhost.follow(records)
            if vhost.counted > counted:
                silence.read(time.monotonic())

    def _refuse_other_leader(self, vhost: str, seconds: float) -> None:
        """Refuse if a leader was heard so lately that has not said that it ends."""
        leader = self._leader()
        if leader is None or leader.beat.ends or time.monotonic() - leader.heard_s > seconds:
            return
        raise CannotLeadError(
            f"vhost {vhost}: {leader.beat.name} leads it. Stop that first, or start this one with "
            "--standby"
        )

    def _is_heard(self, vhost: LogVhost) -> bool:
        """Whether a heartbeat of the newest epoch was heard, since the lead was lost."""
        leader = self._leader()
        if leader is None or leader.heard_s <= self._lost_s:
            return False
        return leader.beat.epoch >= vhost.fold.epoch

    def _is_over(self, silence: Silence, vhost: LogVhost) -> bool:
        """Whether the leader was silent for long enough, although it could be heard."""
        if self._is_heard(vhost):
            self._unheard_losses = 0
            silence.is_heard()
        now_s, leader = time.monotonic(), self._leader()
        if self._is_made_here and leader is not None and leader.beat.name == self._settings.name:
            leader = None  # it was heard before the vhost was deleted here
        silence.look(leader, now_s)
        return silence.is_over(leader, vhost.fold.epoch, now_s)

    async def _end_if_kafka_is_there(self) -> int | None:
        """The end of the log; None if Kafka does not answer: then nobody can be heard."""
        try:
            _first, end = await self._log.ends()
        except LogUnreadableError:
            return None
        return end
