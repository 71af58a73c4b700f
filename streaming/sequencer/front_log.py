"""One log of a front and the vhost on it, from its start to its end.

    snapshot + log --fold--> FOLLOWING --nobody leads--> epoch record --> LEADING --> clients
                                 ^                                          |
                                 +--- a standby, replaced by another front -+

A front that is not a standby leads its vhosts from its start on. It does not replace a front that
is there: only one that is silent, or has said that it ends.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from streaming.amqp.clocks import WallClock
from streaming.amqp.server import SHUTDOWN, Server
from streaming.broker.sequence.log_fold import NO_EPOCH, Terms
from streaming.job_locations import FRONT_FOLDER
from streaming.sequencer.beating import Beating
from streaming.sequencer.bodies import Bodies, BodyReader, MessageGoneError
from streaming.sequencer.copying import Copying
from streaming.sequencer.front_fence import FencedOffError
from streaming.sequencer.importing import Import, import_definitions, is_due
from streaming.sequencer.input_reader import InputReader
from streaming.sequencer.input_records import InputRecords
from streaming.sequencer.job_lag import JobLag
from streaming.sequencer.leader_heartbeats import BEAT_S, Beat, Leader, Leaders
from streaming.sequencer.letter_contents import LetterContents
from streaming.sequencer.log_reader import LogReader, LogUnreadableError, RawRecord
from streaming.sequencer.log_state import LogState
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.log_writer import Acknowledged, LogWriter
from streaming.sequencer.records import Record
from streaming.sequencer.settings import FrontSettings
from streaming.sequencer.snapshots import LogIdentity, Snapshot, Snapshots
from streaming.sequencer.terms_of_job import listen_for_job, refuse_other_job
from streaming.sequencer.waiting import CannotLeadError, Waiting

SNAPSHOT_AGAIN_S: Final = 10.0
"""The pause behind a snapshot that was not written."""

OPEN_AGAIN_S: Final = 1.0
"""The pause before a standby that could not read its log on opens it again."""

NAMES_BYTES: Final = 4_096
"""Room in a record of a log for the names in its headers, of which each has 255 bytes."""

_READ_S: Final = 0.2

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class FrontOfLogs(Protocol):
    """The front of a log; see `Front`."""

    settings: FrontSettings
    server: Server
    admin: Any
    opening: asyncio.Semaphore
    imports: Mapping[str, Import]
    writer: LogWriter
    beating: Beating
    leaders: Leaders
    leads: asyncio.Event
    reason: str | None
    is_ending: bool
    may_lead: Callable[[str], Awaitable[bool]]
    may_serve: Callable[[LogVhost], Awaitable[bool]]

    def run(self, work: Any) -> object:
        """Do something beside everything else; what fails ends the front."""

    def follow(self, log: "FrontLog") -> None:
        """Follow a log, and lead where nobody does; again after each loss."""

    def end(self, reason: str) -> None:
        """Note that the front cannot go on."""

    def job_at(self, vhost: str) -> int | None:
        """The next offset of the job in a log; None if no job is heard."""

    def terms_of_job(self, vhost: str) -> Terms | None:
        """How the job folds a log; None if no job is heard, or it does not say."""


class FrontLog:
    """One log and the vhost that follows it, or leads. Make it on the event loop.

    Args:
        is_made_here: see `Waiting`.

    Attributes:
        vhost: None before the log was opened, and when it is opened again.
        lag: how far the job is behind.
    """

    def __init__(self, front: FrontOfLogs, name: str, *, is_made_here: bool | None = None) -> None:
        settings = front.settings
        self.name = name
        self.topic = settings.logs[name]
        self.vhost: LogVhost | None = None
        self._front = front
        self._loop = asyncio.get_running_loop()
        self._shard = settings.shards[name]
        self._reader = LogReader(settings.properties, self.topic)
        self._bodies = BodyReader(LogReader(settings.properties, self.topic))
        self._identity: LogIdentity | None = None
        self._snapshots: Snapshots | None = None
        self._has_opened = self._is_dropped = False
        self._is_told_behind = False
        self.lag = JobLag(settings.lag_marks)
        self._snapshot_at = 0
        self._written_s: float | None = None
        self._takeover_s: float | None = None
        self._before: Counter[str] = Counter()  # of vhosts that it followed or led before
        self._waiting = Waiting(
            *(settings, front.leaders, lambda: self.leader, self), is_made_here=is_made_here
        )
        self._next_snapshot_s = time.monotonic() + settings.snapshot_ms / 1000
        self._one_snapshot = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log")  # all that reads the log
        self._epoch_number = 0  # of its newest epoch record among what was appended to the log
        self._taken: asyncio.Future[Acknowledged] | None = None

    def close(self) -> None:
        """Disconnect."""
        self._bodies.close()
        self._thread.submit(self._reader.close)
        self._thread.shutdown()

    def _in_thread(self, read: "Callable[..., _T]", *args: float) -> "asyncio.Future[_T]":
        return self._loop.run_in_executor(self._thread, read, *args)

    def read_on(self, timeout_s: float) -> "asyncio.Future[list[RawRecord]]":
        """The next records of the log; none if none comes in time."""
        return self._in_thread(self._reader.read, timeout_s)

    def ends(self) -> "asyncio.Future[tuple[int, int]]":
        """The offset of the oldest record of the log, and that of the next one."""
        return self._in_thread(self._reader.ends)

    def _terms_of_job(self) -> Terms | None:
        return self._front.terms_of_job(self.name)

    @property
    def leads(self) -> bool:
        """Whether clients may open the vhost here."""
        return self.vhost is not None and self.vhost.leads

    @property
    def leader(self) -> Leader | None:
        """Who was heard to lead the log, here or elsewhere."""
        identity = self._identity
        topic_id = None if identity is None else identity.topic_id
        return self._front.leaders.of(self.name, self.topic, topic_id)

    @property
    def is_idle(self) -> bool:
        """Whether everything that clients did is applied, and they know."""
        return self.vhost is None or not self.vhost.leads or self.vhost.is_idle

    def drop(self, *, is_deleted: bool) -> None:
        """Neither lead nor follow it any more.

        Args:
            is_deleted: the vhost is; otherwise another front may serve it at once.
        """
        self._is_dropped = True
        if self.leads and not is_deleted:
            self.beat(ends=True)
        self._front.beating.drop(self.name)
        if self.vhost is not None:
            self.vhost.fail("it is served here no more")

    def end(self) -> None:
        """Append nothing more to the log."""
        if self.vhost is not None:
            self.vhost.end()

    def state(self) -> LogState:
        """How it is doing."""
        vhost = self.vhost
        counts = self._counts()
        found = LogState(
            topic=self.topic,
            takeovers=counts["takeovers"],
            takeover_s=self._takeover_s,
            losses=counts["losses"],
            digests_written=counts["digests_written"],
            digests_compared=counts["digests_compared"],
            fetches=counts["fetches"],
            snapshot_at=self._snapshot_at,
            snapshot_s=self._written_s,
        )
        if vhost is None:
            return found
        return msgspec.structs.replace(
            found,
            leads=vhost.leads,
            job_lag=self.lag.lag if vhost.leads else None,
            epoch=vhost.epoch if vhost.epoch >= 0 else None,
            next_offset=vhost.position,
            backlog=vhost.backlog,
            oldest_s=vhost.oldest_s,
            body_bytes=vhost.stored.held_bytes,
            max_body_bytes=vhost.stored.max_bytes,
        )

    def _counts(self) -> Counter[str]:
        """What has happened since the start, also before the vhost was opened again."""
        found = self._before.copy()
        vhost = self.vhost
        if vhost is not None:
            found["digests_written"] += vhost.digests_written
            found["digests_compared"] += vhost.digests_compared
            found["fetches"] += vhost.stored.fetches
        return found

    # -- following and leading

    async def live(self) -> None:
        """Follow the log until nobody leads it, then lead.

        Raises:
            DlxError: it cannot.
        """
        while True:
            try:
                await self._follow_and_lead()
            except (LogUnreadableError, MessageGoneError, FencedOffError) as error:
                if not (self._has_opened and self._front.settings.standby):
                    raise
                logger.warning(
                    "vhost %s: %s. The standby opens it again, with the newest snapshot",
                    *(self.name, error),
                )
                self._before = self._counts()
                self.vhost = None
                await asyncio.sleep(OPEN_AGAIN_S)
            else:
                return

    async def _follow_and_lead(self) -> None:
        async with self._front.opening:
            opening_s = time.monotonic()
            await self._open()
        vhost = self._opened
        if vhost.changes_terms:
            await listen_for_job(self._terms_of_job)
        await self._waiting.until_nobody_leads(vhost, opening_s)
        if not await self._front.may_lead(self.name):
            return
        is_first = vhost.fold.epoch == NO_EPOCH
        refuse_other_job(vhost, self.topic, self._terms_of_job())
        begin_s = time.monotonic()
        self._taken = self._loop.create_future()
        self._epoch_number = self._front.writer.appended(self.topic) + 1
        vhost.take_over(self._front.settings.name)
        epoch = await self._taken
        if epoch.offset < vhost.position:
            raise CannotLeadError(
                f"vhost {self.name}: the log {self.topic} ends before offset {vhost.position}, "
                f"up to which it was read: Kafka has lost records, or the topic was made again"
            )
        await self._follow_to(epoch.offset)
        standby = self._front.settings.standby
        if standby and is_first:
            await self._refuse_if_outrun(epoch)
        vhost.lead(epoch)
        self.beat()
        self._thread.submit(self._reader.close)  # a leader knows what it writes
        given = self._front.imports.get(self.name)
        if given is not None and is_due(given, vhost, standby=standby):
            await import_definitions(given, vhost)
        if not (vhost.leads and await self._front.may_serve(vhost) and vhost.leads):
            return  # if it was replaced meanwhile, it follows again if it is a standby
        self._front.server.add_vhost(vhost)
        self._front.leads.set()
        self._copy(vhost)
        self._before["takeovers"] += 1
        self._takeover_s = time.monotonic() - begin_s
        logger.info(
            "vhost %s: leads since offset %s of %s, after %.1f s",
            *(self.name, epoch.offset, self.topic, self._takeover_s),
        )

    async def _refuse_if_outrun(self, epoch: Acknowledged) -> None:
        """Look whether another standby, started at the same time, takes over a new log, too.

        Otherwise the clients of the one whose epoch record is earlier would soon be disconnected.

        Raises:
            FencedOffError: it does, and its epoch record is the later one.
        """
        await asyncio.sleep(BEAT_S)
        _first, end = await self.ends()
        if end > epoch.offset + 1:
            raise FencedOffError(f"another front takes it over since offset {epoch.offset + 1}")

    def _copy(self, vhost: LogVhost) -> None:
        """Copy what the inputs have for the vhost, while it leads."""
        settings = self._front.settings
        commands = [each for each in settings.inputs if each.mapping is None]
        mapped = [each for each in settings.inputs if each.may_feed(self.name)]
        for inputs, waits in ((commands, self._is_ending), (mapped, self._must_wait)):
            if not inputs:
                continue
            topics = [each.topic for each in inputs]
            copying = Copying(
                vhost,
                InputReader(
                    *(settings.properties, self._front.admin, self.topic, topics, vhost.copied),
                    accepts_loss=settings.accepts_loss,
                ),
                InputRecords(
                    *(self.name, inputs, settings.vhosts),
                    *(settings.max_body_bytes, settings.max_property_bytes),
                    settings.max_record_bytes - NAMES_BYTES,
                ),
                LetterContents(LogReader(settings.properties, self.topic)),
                waits,
            )
            self._front.run(copying.run())

    def _is_ending(self) -> bool:
        return self._front.is_ending

    def _must_wait(self) -> bool:
        return self._front.is_ending or self._front.server.is_blocked

    @property
    def _opened(self) -> LogVhost:
        assert self.vhost is not None, "the vhost was opened"
        return self.vhost

    async def _open(self) -> None:
        """Begin with the newest snapshot and what the log has behind it."""
        begin_s = time.monotonic()
        snapshot = await self._in_thread(self._find_snapshot)
        first, end = await self.ends()
        if snapshot is None and first:
            raise CannotLeadError(
                f"vhost {self.name}: the log {self.topic} begins at offset {first}, and there is "
                f"no usable snapshot of what was before. Restore the folder {FRONT_FOLDER} of "
                f"job.checkpoint_location, or the records"
            )
        bodies = Bodies(self._front.settings.body_bytes, self._bodies.fetch, self._fetched)
        entries = None if snapshot is None else snapshot.entries
        self.vhost = vhost = LogVhost(self._shard, bodies, self, WallClock().now_ms, entries)
        vhost.max_body_bytes = self._front.settings.max_body_bytes
        vhost.max_property_bytes = self._front.settings.max_property_bytes
        settings = self._front.settings
        content_bytes = settings.max_body_bytes + settings.max_property_bytes
        vhost.max_routed_bytes = settings.max_record_bytes - content_bytes - NAMES_BYTES
        self.lag = JobLag(self._front.settings.lag_marks)
        self.lag.update((vhost.position, vhost.log_bytes), None, begin_s)
        self._snapshot_at = vhost.fold.next_offset
        self._reader.seek(vhost.fold.next_offset)
        await self._follow_to(end - 1)
        self._has_opened = True
        logger.info(
            "vhost %s: %s records of %s after %s, %.1f s",
            *(self.name, vhost.fold.next_offset - self._snapshot_at, self.topic),
            "the first" if snapshot is None else f"the snapshot at {snapshot.next_offset}",
            time.monotonic() - begin_s,
        )

    def _find_snapshot(self) -> Snapshot | None:
        log = self._identity = self._reader.identity(self.name)
        self._snapshots = Snapshots(self._front.settings.checkpoint, log)
        return self._snapshots.newest(self._reader.ends)

    async def _follow_to(self, last: int) -> None:
        """Fold the log up to an offset. What is read next is what follows it."""
        vhost = self._opened
        reading: asyncio.Future[list[RawRecord]] | None = None
        while vhost.position <= last:
            records = await (reading or self.read_on(_READ_S))
            is_last = not records or records[-1].offset >= last
            reading = None if is_last else self.read_on(_READ_S)
            vhost.follow([record for record in records if record.offset <= last])
        self._reader.seek(vhost.position)  # it has read on where somebody else was writing

    def note_lag(self, committed: int | None) -> None:
        """Note how far the job is; None: none follows."""
        vhost = self._opened
        self.lag.update((vhost.position, vhost.log_bytes), committed, time.monotonic())
        if not vhost.leads or self.lag.is_high == self._is_told_behind:
            return  # a standby has no publishers
        self._is_told_behind = self.lag.is_high
        if self.lag.is_high:
            logger.warning("vhost %s: publishers wait: the job is behind: %s", self.name, self.lag)
        else:
            logger.warning("vhost %s: publishers wait no more: %s", self.name, self.lag)

    def check_leader(self) -> None:
        """Stop if another front says that it leads since a later record."""
        leader = self.leader
        vhost = self._opened
        if leader is not None and _replaces(leader.beat, vhost.epoch):
            vhost.fail(f"{leader.beat.name} leads it since offset {leader.beat.epoch} of its log")

    def beat(self, *, ends: bool = False) -> None:
        """Say that this front leads, from now on; or that it ends."""
        identity = self._identity
        assert identity is not None, "it has read its log"
        beat = Beat(
            *(self._front.settings.name, self._opened.epoch, ends),
            *(identity.topic, identity.topic_id),
        )
        value = msgspec.msgpack.encode(beat)
        if ends:
            self._front.beating.drop(self.name, value)
        else:
            self._front.beating.keep(self.name, value)

    # -- snapshots

    def wants_snapshot(self) -> bool:
        """Whether it is time for one."""
        settings = self._front.settings
        return not self._one_snapshot.locked() and (
            self._opened.fold.next_offset - self._snapshot_at >= settings.snapshot_records
            and time.monotonic() >= self._next_snapshot_s
        )

    async def snapshot(self) -> str | None:
        """Write a snapshot; the vhost goes on meanwhile. Return why none was written."""
        async with self._one_snapshot:
            vhost = self.vhost  # another front may have replaced it since it was to be written
            taken = None if vhost is None else vhost.snapshot()
            if taken is None or taken.next_offset == self._snapshot_at:
                return None
            assert self._snapshots is not None, "the vhost was opened"
            pause_s = self._front.settings.snapshot_ms / 1000
            self._next_snapshot_s = time.monotonic() + min(pause_s, SNAPSHOT_AGAIN_S)
            try:
                job_at = self._front.job_at(self.name)
                await asyncio.to_thread(self._snapshots.write, taken, job_at)
            except OSError as error:
                logger.warning("vhost %s: no snapshot was written: %s", self.name, error)
                return f"vhost {self.name}: no snapshot was written: {error}"
            self._next_snapshot_s = time.monotonic() + pause_s
            self._snapshot_at = taken.next_offset
            self._written_s = time.time()
            return None

    # -- what the vhost needs (`Host`)

    def append(self, _vhost: LogVhost, records: Collection[Record]) -> int:
        """See `Host`."""
        return self._front.writer.append(self.topic, records)

    def soon(self, step: Callable[[], None]) -> None:
        """See `Host`."""
        self._loop.call_soon(step)

    def told(self) -> None:
        """See `Host`."""
        self._front.server.turn_ended()

    def read(self, vhost: LogVhost, first: int, last: int) -> None:
        """See `Host`."""
        self._front.run(self._read(vhost, first, last))

    async def _read(self, vhost: LogVhost, first: int, last: int) -> None:
        await self._in_thread(self._reader.seek, first)
        found: list[RawRecord] = []
        while not found or found[-1].offset < last:
            try:
                found += await self.read_on(_READ_S)
            except LogUnreadableError as error:  # it slept so long that they were trimmed
                vhost.fail(str(error))
                return
            if not vhost.leads:  # it may follow again: the reader is no longer for this
                return
        self._thread.submit(self._reader.close)
        vhost.found([record for record in found if record.offset <= last])

    def taken(self, _vhost: LogVhost, epoch: Acknowledged) -> None:
        """See `Host`."""
        is_ours = epoch.number == self._epoch_number  # not a record from before, when it led
        if is_ours and self._taken is not None and not self._taken.done():
            self._taken.set_result(epoch)

    def over(self, vhost: LogVhost, reason: str) -> None:
        """See `Host`."""
        if self._is_dropped:
            return
        logger.warning("vhost %s: this front leads it no more: %s", self.name, reason)
        self._front.beating.drop(self.name)
        self._before["losses"] += 1
        self._waiting.lost()
        server = self._front.server
        if server.vhosts.get(self.name) is vhost:
            server.remove_vhost(self.name, SHUTDOWN)
        if not self._front.settings.standby or self._front.reason is not None:
            self._front.end(f"vhost {self.name}: {reason}")
        elif not self._front.is_ending:
            self._before = self._counts()
            self.vhost = None
            self._front.follow(self)

    def _fetched(self) -> None:
        self._loop.call_soon_threadsafe(partial(_go_on, self))


def _replaces(beat: Beat, epoch: int) -> bool:
    """Whether a heartbeat says that another front leads the log since a later record."""
    return bool(beat.topic_id) and beat.epoch > epoch and not beat.ends


def _go_on(log: FrontLog) -> None:
    if log.vhost is not None:
        log.vhost.fetched()
