"""The AMQP front on Kafka: its start, its end, and what it does regularly.

Each of its vhosts has a log of its own (`front_log.py`). All share one producer, one heartbeat and
the memory of the process.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from streaming.amqp.clocks import WallClock
from streaming.amqp.server import SHUTDOWN, Server
from streaming.broker.sequence.log_fold import Terms
from streaming.kafka_offsets import quiet_admin
from streaming.sequencer.beating import Beating
from streaming.sequencer.front_log import FrontLog
from streaming.sequencer.importing import Import
from streaming.sequencer.job_progress import JobProgress
from streaming.sequencer.leader_heartbeats import Leaders
from streaming.sequencer.log_state import LogState
from streaming.sequencer.log_vhost import LogVhost, Role
from streaming.sequencer.log_writer import Acknowledged, LogWriter
from streaming.sequencer.settings import FrontSettings
from streaming.sequencer.slow_kafka import SlowKafka
from streaming.sequencer.takeover import SaidOrNot
from topology.errors import DlxError

KAFKA_IS_SLOW: Final = "Kafka is slow"
JOB_IS_BEHIND: Final = "the job is behind"
"""Why publishers have to wait, besides memory."""

DRAIN_S: Final = 10.0
"""How long a stop waits for Kafka."""

OPENED_AT_ONCE: Final = 16
"""Logs that are opened at once: Kafka would not answer hundreds of new clients in time."""

_CHECK_S: Final = 0.25

logger = logging.getLogger(__name__)


class Front:
    """The vhosts of one process. Make it on the event loop.

    Args:
        imports: vhost -> what it imports before clients may open it.

    Attributes:
        leads: set when the first vhost can be opened here.
        reason: why the front has ended by itself; None while it runs, and after a stop.
        ended: set then.
        admin: a client that asks Kafka for topics.
        opening: held while a log is opened.
        is_ending: whether it is being stopped: it begins nothing more.
        beating: its heartbeats.
        leaders: those of all fronts.
        writer: the producer.
        may_lead: is asked before a vhost leads here; if it must not, it follows no more.
        may_serve: is asked before clients may open a vhost that leads here.
    """

    def __init__(
        self, settings: FrontSettings, server: Server, imports: Mapping[str, Import]
    ) -> None:
        self.server = server
        self.imports = imports
        self.reason: str | None = None
        self.ended = asyncio.Event()
        self.leads = asyncio.Event()
        self.admin = quiet_admin(settings.properties)
        self.opening = asyncio.Semaphore(OPENED_AT_ONCE)
        self.is_ending = False
        self.settings = settings
        self.may_lead: Callable[[str], Awaitable[bool]] = _may
        self.may_serve: Callable[[LogVhost], Awaitable[bool]] = _may
        self._loop = asyncio.get_running_loop()
        self.writer = LogWriter(settings.properties, self._acknowledged, self._lost)
        self.beating = Beating(self._say)
        self.leaders = Leaders(settings.properties, settings.leaders_topic)
        self._kafka = SlowKafka()
        self._heard = SaidOrNot(settings.leaders_topic, settings.takeover_ms / 1000)
        self._progress = JobProgress(settings.properties, settings.heartbeats)
        self._logs: dict[str, FrontLog] = {}
        self._by_topic: dict[str, FrontLog] = {}
        self._living: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, Callable[[DlxError], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        server.pressure = self._pressure
        for name in settings.logs:
            self._know(name)

    def _know(self, name: str, *, is_made_here: bool | None = None) -> None:
        log = self._logs[name] = FrontLog(self, name, is_made_here=is_made_here)
        self._by_topic[log.topic] = log
        self.server.elsewhere = self.settings.logs.keys()

    def start(self) -> None:
        """Begin to follow, and to lead where nobody does."""
        for log in self._logs.values():
            self.follow(log)
        self.run(self._watch())

    def add(
        self,
        settings: FrontSettings,
        name: str,
        failed: Callable[[DlxError], None],
        *,
        is_made_here: bool | None = None,
    ) -> None:
        """Serve one more vhost from now on.

        Args:
            settings: that have it.
            failed: is told if it cannot be served, which does not end the front.
            is_made_here: see `Waiting`.
        """
        self.settings = settings
        self._know(name, is_made_here=is_made_here)
        if name in settings.heartbeats:
            self._progress.listen_to(name, settings.heartbeats[name])
        self._failed[name] = failed
        self.follow(self._logs[name])

    def follow(self, log: FrontLog) -> None:
        """Follow a log, and lead where nobody does; again after each loss."""
        self._living[log.name] = self.run(self._live(log))

    async def _live(self, log: FrontLog) -> None:
        try:
            await log.live()
        except DlxError as error:
            if (failed := self._failed.get(log.name)) is None:
                raise
            failed(error)

    def led(self, name: str) -> LogVhost | None:
        """A vhost that leads here; None if it does not."""
        log = self._logs.get(name)
        return log.vhost if log is not None and log.leads else None

    async def drop(self, settings: FrontSettings, name: str, *, is_deleted: bool) -> None:
        """Serve a vhost no more; its connections end.

        Args:
            settings: that do not have it.
            is_deleted: it is deleted; otherwise another front may serve it at once.
        """
        if name in self.server.vhosts:
            self.server.delete_vhost(name)
        log = self._logs.pop(name)
        del self._by_topic[log.topic]
        self._failed.pop(name, None)
        if (living := self._living.pop(name, None)) is not None:
            living.cancel()
        self.settings = settings
        self.server.elsewhere = settings.logs.keys()
        log.drop(is_deleted=is_deleted)
        await asyncio.to_thread(log.close)

    async def stop(self) -> None:
        """Confirm what Kafka takes, end all connections, and leave a snapshot."""
        self.is_ending = True
        self.server.stop_listening()
        led = [log for log in self._logs.values() if log.leads]
        await self._drain(led)
        await self.server.close(SHUTDOWN)
        await self._drain(led)
        for task in self._tasks:
            task.cancel()
        led = [log for log in self._logs.values() if log.leads]  # some may have begun meanwhile
        for log in led:
            log.end()
        await self._drain(led)
        await asyncio.gather(*(self._leave(log) for log in led if log.leads))
        await asyncio.to_thread(self.beating.close)
        await asyncio.to_thread(self.writer.close, DRAIN_S)
        await asyncio.gather(*(asyncio.to_thread(log.close) for log in self._logs.values()))
        await asyncio.to_thread(self.leaders.close)
        await asyncio.to_thread(self._progress.close)

    async def _leave(self, log: FrontLog) -> None:
        """Leave a snapshot of a vhost that leads, and let another front lead it."""
        why_none = await log.snapshot()
        if log.leads:
            log.beat(ends=True)
        if why_none is not None:
            self.end(f"{why_none}. The next start folds the log from the one before")

    async def _drain(self, logs: list[FrontLog]) -> None:
        deadline_s = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline_s:
            if all(log.is_idle for log in logs):
                return
            await asyncio.sleep(0.005)
        logger.warning("Kafka did not take everything within %g s", DRAIN_S)

    def end(self, reason: str) -> None:
        """Note that the front cannot go on."""
        if self.reason is None:
            self.reason = reason
            self.ended.set()

    def run(self, work: Any) -> "asyncio.Task[None]":
        """Do something beside everything else; what fails ends the front."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, DlxError):
            self.end(str(error))
        elif error is not None:
            logger.error("a front ends because of an error in it", exc_info=error)
            self.end(f"{type(error).__name__}: {error}")

    # -- Kafka

    def _acknowledged(self, news: dict[str, Acknowledged]) -> None:
        for topic, acknowledged in news.items():
            log = self._by_topic.get(topic)
            if log is not None and log.vhost is not None:
                log.vhost.acknowledged(acknowledged)

    def _lost(self, reason: str) -> None:
        for log in self._logs.values():
            if log.vhost is not None and log.vhost.role is not Role.FOLLOWING:
                log.vhost.fail(f"Kafka does not take its records: {reason}")
        self.end(f"Kafka does not take records: {reason}")

    def _say(self, vhost: str, beat: bytes) -> None:
        self.writer.say(self.settings.leaders_topic, vhost, beat, WallClock().now_ms())

    # -- regular work

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            self.beating.turned()
            leading = [log for log in self._logs.values() if log.leads]
            for log in leading:
                log.check_leader()
            self._heard.update(self.writer.said_s, time.monotonic(), leads=bool(leading))
            for log in self._logs.values():
                if log.vhost is not None:
                    log.vhost.send_rest()
                    log.note_lag(self.job_at(log.name))
                if log.leads and log.wants_snapshot():
                    self.run(log.snapshot())  # heartbeats go on while it is written
            self.server.check_flow()
            self.server.turn_ended()

    def _pressure(self) -> str | None:
        """Why publishers must wait."""
        vhosts = [log.vhost for log in self._logs.values() if log.vhost is not None]
        waiting = len(self.writer) + sum(vhost.unsent for vhost in vhosts)
        oldest_s = max((vhost.oldest_s for vhost in vhosts), default=0.0)
        self._kafka.update(waiting, oldest_s, time.monotonic())
        if self._kafka.is_slow:
            return KAFKA_IS_SLOW
        if any(log.leads and log.lag.is_high for log in self._logs.values()):
            return JOB_IS_BEHIND
        return None

    def job_at(self, vhost: str) -> int | None:
        """The next offset of the job in a log; None if no job is heard."""
        return self._progress.of(vhost)

    def terms_of_job(self, vhost: str) -> Terms | None:
        """How the job folds a log; None if no job is heard, or it does not say."""
        return self._progress.terms_of(vhost)

    def states(self) -> dict[str, LogState]:
        """How each vhost is doing."""
        return {name: log.state() for name, log in self._logs.items()}


async def _may(_vhost: object) -> bool:
    return True
