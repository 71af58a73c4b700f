"""A vhost whose life is a log: what clients do is appended, and applied once Kafka has it.

    channels --submit--> turn --append--> Kafka --acknowledged--> apply --> LogFold --> channels

    FOLLOWING   folds what another front writes; clients cannot open it
    TAKING      has appended its epoch record, and folds what is before it
    LEADING     appends, and applies in the order of the offsets
    OVER        replaced by another epoch, or failed: appends and applies nothing any more

Rule 1: a record is applied when Kafka has acknowledged it and all before it, and never before.
Rule 2: behind an epoch record of somebody else nothing of ours counts, so nothing of it is
        confirmed (`front_fence.py`).
Rule 3: only the offset, time and content of a record decide what it does.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from streaming.amqp.entries import Entry, Then
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.outbound import ConfirmOut, DeliveryOut, Outbound, ReturnOut
from streaming.broker.sequence.log_fold import LogFold
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from streaming.config.shards import terms_of
from streaming.protocol.copied_records import Source
from streaming.protocol.log_records import Digest, Epoch, LogHeader, LogKind, UnknownRecordError
from streaming.sequencer.bodies import Bodies
from streaming.sequencer.bursts import Bursts
from streaming.sequencer.copied_positions import CopiedPositions
from streaming.sequencer.front_fence import FencedOffError, FrontFence
from streaming.sequencer.log_clock import LogClock
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.log_writer import Acknowledged
from streaming.sequencer.needed_offsets import KEY as NEEDED
from streaming.sequencer.needed_offsets import NeededOffsets
from streaming.sequencer.records import Record, RecordWriter, epoch_record
from streaming.sequencer.replay import Replay
from streaming.sequencer.snapshots import Snapshot
from topology.errors import DlxError

PORTION: Final = 500
"""Records that are applied before other vhosts and connections have their turn."""

_TICK: Final = int(LogKind.TICK)

MAX_WAITING: Final = 200_000
MAX_WAITING_BYTES: Final = 256 << 20
"""What waits for Kafka; then no client is read. Those that publish wait before that."""

logger = logging.getLogger(__name__)


class Role(Enum):
    """What a vhost does here; see the top of this file."""

    FOLLOWING = auto()
    TAKING = auto()
    LEADING = auto()
    OVER = auto()


class Backlog(NamedTuple):
    """Records on their way to be applied.

    Attributes:
        unsent: enough is on its way to Kafka.
        unacknowledged: Kafka has not acknowledged them.
        unfolded: Kafka has them.
    """

    unsent: int = 0
    unacknowledged: int = 0
    unfolded: int = 0


class Host(Protocol):
    """The process that a vhost is in."""

    def append(self, vhost: "LogVhost", records: Collection[Record]) -> int:
        """Append records to the log, in order; return how many the producer takes now."""

    def soon(self, step: Callable[[], None]) -> None:
        """Do something when the bytes that have arrived were read."""

    def told(self) -> None:
        """Write what connections have to say."""

    def read(self, vhost: "LogVhost", first: int, last: int) -> None:
        """Read these offsets from the log, and hand them to `found`."""

    def taken(self, vhost: "LogVhost", epoch: Acknowledged) -> None:
        """Note that Kafka has the epoch record: fold what is up to it, then `lead`."""

    def over(self, vhost: "LogVhost", reason: str) -> None:
        """Note that the vhost is OVER."""


class LogVhost(OpenVhost):
    """One sequenced vhost.

    Args:
        bodies: of its messages.
        entries: of the state store, as a snapshot has them.
        elapsed_s: a clock that never goes back.

    Attributes:
        fold: of the log.
        terms: on which this program folds.
        role: see the top of this file.
        epoch: offset of its epoch record, once it leads.
        position: offset of the next record of the log.
        counted: offset of the newest record that was read and is of the newest epoch.
        log_bytes: of the records that were folded here.
        copied: how far inputs were copied into the log.
        digests_written, digests_compared: how many, since it was opened.
    """

    stored: Bodies

    def __init__(
        self,
        config: ShardConfig,
        bodies: Bodies,
        host: Host,
        now_ms: Callable[[], int],
        entries: dict[str, bytes] | None = None,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = MemoryStore()
        self._store.values.update(entries or {})
        self._cache = VhostCache()
        self.terms = terms_of(config)
        self._host = host
        shard = self._shard_of(config, bodies)
        super().__init__(config, now_ms, stored=bodies, shard=shard)
        self._fold = self.fold = LogFold(shard, self._store, self.terms)
        self.position = self.fold.next_offset
        self.counted = self.position - 1
        self.log_bytes = 0
        self.copied = CopiedPositions(self._store)
        bodies.needed = NeededOffsets(self._store.read(NEEDED))
        self._replay = Replay(bodies, self.copied)
        self._records = RecordWriter(-1)
        self.role = Role.FOLLOWING
        self.epoch = -1
        self._ticket = 0
        self._turn: list[tuple[int, Entry]] = []
        self._is_turn = False
        self._waiting: deque[Record | tuple[int, Then]] = deque()
        self._bursts = Bursts(self._append)
        self._waiting_bytes = 0
        self._clock = LogClock(now_ms, elapsed_s)
        self._elapsed_s = elapsed_s
        self._is_ticking = False
        self._is_ending = False
        self.digests_written = self.digests_compared = 0
        self._digested = -1  # the boundary of the newest digest that was written
        self._fence = FrontFence(config.vhost, Acknowledged(0, -1))
        self._applies = False
        self._untold: deque[Outbound] = deque()
        self._asker: Actor | None = None

    def _shard_of(self, config: ShardConfig, bodies: Bodies) -> Shard:
        return Shard(config, self._store, cache=self._cache, published=bodies.published)

    # -- following

    def follow(self, records: list[RawRecord]) -> None:
        """Fold what another front has written.

        Raises:
            NewerLogError, OtherTermsError, FoldsDifferError: it must not be folded here.
        """
        for record in records:
            self._take(record)
        self.fold.take_outbound()  # the clients of that front were told
        self.shard.take_timed_out()
        self.stored.count(self.fold.take_events(), self._replay.take_published())

    def _take(self, record: RawRecord) -> LogHeader | None:
        """Fold a record of the log; return its header, None if it is no record of a front."""
        self.position = record.offset + 1
        self.log_bytes += len(record.value or b"") + len(record.content or b"")
        try:
            header = self._replay.take(self.fold, record)
        except UnknownRecordError as error:
            logger.warning(
                "vhost %s: the record at offset %s changes nothing: %s",
                *(self.name, record.offset, error),
            )
            return None
        if header.epoch == self.fold.epoch or header.kind == LogKind.EPOCH:
            self.counted = record.offset
            self.digests_compared += header.kind == LogKind.DIGEST
        return header

    # -- leading

    def take_over(self, name: str) -> None:
        """Append an epoch record; `Host.taken` hears where it is."""
        self.role = Role.TAKING
        self._clock.note(self.shard.now_ms)
        epoch = Epoch(name, self.terms.core_version, self.terms.rules)
        self._bursts.add([epoch_record(self._clock.now_ms(), epoch)])
        self._bursts.send()

    def lead(self, epoch: Acknowledged) -> None:
        """Begin to lead: everything up to the own epoch record is folded."""
        assert self.fold.epoch == epoch.offset, "the epoch record was folded"
        assert self.position == epoch.offset + 1, "and nothing behind it"
        self.epoch = epoch.offset
        self.role = Role.LEADING
        self._records = RecordWriter(epoch.offset)
        self._fence = FrontFence(self.name, epoch)
        self._bursts.begin(epoch.number)
        self._clock.note(self.shard.now_ms)

    def end(self) -> None:
        """Append nothing more: the next snapshot is to be the end of the log."""
        self._is_ending = True

    def fail(self, reason: str) -> None:
        """Stop for good: nothing more is confirmed."""
        if self.role is not Role.OVER:
            self.role = Role.OVER
            for waiting in (self._turn, self._waiting, self._bursts, self._untold):
                waiting.clear()
            self._fence.found.clear()
            self._host.over(self, reason)

    # -- what clients do

    def submit(self, entry: Entry) -> int:
        """See `OpenVhost`: it is applied when Kafka has it."""
        self._ticket += 1
        if self.role is Role.OVER or (self._is_ending and not isinstance(entry, Then)):
            return self._ticket
        if isinstance(entry, Then) and self.is_idle:
            self.applied = self._ticket
            entry.done()
            return self._ticket
        self._turn.append((self._ticket, entry))
        if not self._is_turn:
            self._is_turn = True
            self._host.soon(self._write_turn)
        return self._ticket

    @property
    def leads(self) -> bool:
        """Whether clients may open it here."""
        return self.role is Role.LEADING

    @property
    def changes_terms(self) -> bool:
        """Whether its own epoch begins on other terms than the one before."""
        return self.fold.of_epoch not in {None, self.terms}

    @property
    def is_full(self) -> bool:
        """See `OpenVhost`."""
        return self.leads and (
            self._ticket - self.applied > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES
        )

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is applied and told."""
        return not (self._turn or self._waiting or self._untold)

    @property
    def is_told(self) -> bool:
        """See `OpenVhost`."""
        return not self._untold

    @property
    def oldest_s(self) -> float:
        """For how long the oldest record waits that was submitted and is not applied."""
        for each in self._waiting:
            if isinstance(each, Record):
                return self._elapsed_s() - each.queued_s
        return 0.0

    @property
    def unsent(self) -> int:
        """How many records wait for others that are on their way to Kafka."""
        return len(self._bursts)

    @property
    def backlog(self) -> Backlog:
        """What waits on its way to be applied."""
        waiting = sum(isinstance(each, Record) for each in self._waiting)
        unsent = self.unsent
        unfolded = min(max(self._fence.last_own + 1 - self.position, 0), waiting - unsent)
        return Backlog(unsent, waiting - unsent - unfolded, unfolded)

    def _write_turn(self) -> None:
        """Append what clients have done since the last time."""
        self._is_turn = False
        turn, self._turn = self._turn, []
        found = list(self._records.of_turn(self._clock.now_ms(), turn))
        self._waiting.extend(found)
        self._add([one for one in found if isinstance(one, Record)])
        self._bursts.send()
        if self._waiting and isinstance(self._waiting[0], tuple):
            self._apply()  # a `Then` has nothing to wait for

    def _queue(self, record: Record) -> None:
        self._waiting.append(record)
        self._add([record])

    def _add(self, records: list[Record]) -> None:
        """Append records as soon as may be; they wait to be applied."""
        queued_s = self._elapsed_s()
        for record in records:
            record.queued_s = queued_s
            self._waiting_bytes += record.size
        self._bursts.add(records)

    def _append(self, records: Collection[Record]) -> int:
        return self._host.append(self, records)

    def send_rest(self) -> None:
        """Append what the producer did not take before; nothing else may come to cause it."""
        self._bursts.send()

    def advance(self) -> None:
        """See `OpenVhost`: what time causes happens when the log says how late it is."""
        due_ms = self._due_ms()
        if due_ms is not None and due_ms <= self._clock.now_ms():
            self._is_ticking = True
            self._queue(self._records.tick(self._clock.now_ms()))
            self._bursts.send()

    def mark(self, source: Source) -> None:
        """Write how far an input was read, when much of it was for others."""
        if not self.leads or self._is_ending:
            return
        self._queue(self._records.tick(self._clock.now_ms(), source))
        self._bursts.send()

    def next_deadline_ms(self) -> int | None:
        """See `OpenVhost`; by the wall clock, which the log may be ahead of."""
        due_ms = self._due_ms()
        return None if due_ms is None else due_ms - self._clock.ahead_ms()

    def _due_ms(self) -> int | None:
        """When time causes something next, by the clock of the log."""
        waits = self._is_ticking or self._is_ending or not self.leads
        return None if waits else super().next_deadline_ms()

    # -- what Kafka has

    def acknowledged(self, news: Acknowledged) -> None:
        """Apply what Kafka has."""
        self._bursts.acknowledged(news.number)
        if self.role is Role.TAKING:
            self._host.taken(self, news)
        elif self.role is Role.LEADING:
            try:
                self._fence.acknowledged(news)
            except FencedOffError as error:
                self.fail(str(error))
            self._bursts.send()
            self._apply()

    def found(self, records: list[RawRecord]) -> None:
        """Apply what is in the log where something unexpected is."""
        self._fence.read(records)
        self._apply()

    def _apply(self) -> None:
        """Apply a portion of what Kafka has, and tell what came of it."""
        self._applies = False
        if not self.leads:
            return
        try:
            more = self._apply_portion()
            self.flush()
        except DlxError as error:
            self.fail(str(error))
            self._host.told()  # what was applied before is confirmed
            return
        except Exception:
            self.fail("an error in this front: a record was applied in part")
            raise
        self._host.told()
        if self.leads:
            self._write_digest()
        if more and not self._untold and not self._applies:
            self._applies = True
            self._host.soon(self._apply)

    def _apply_portion(self) -> bool:
        """Apply some of what may be applied; return whether there is more."""
        waiting, fence, untold, leading = self._waiting, self._fence, self._untold, Role.LEADING
        last_own = fence.last_own
        for _ in range(PORTION):
            if untold or self.role is not leading:
                return False  # `fetched` is called
            first = waiting[0] if waiting else None
            if isinstance(first, tuple):
                waiting.popleft()
                self.applied, then = first
                self.apply(then, 0, 0)
            elif fence.found:
                self._apply_found(fence.found.popleft())
            elif first is not None and self.position <= last_own:
                waiting.popleft()
                self._apply_own(first, self.position)
            elif fence.pass_unexpected(self.position):
                last_own = fence.last_own
            else:
                if (unread := fence.unread(self.position)) is not None:
                    self._host.read(self, *unread)
                return False
        return True

    def _apply_own(self, record: Record, offset: int) -> None:
        self.position = offset + 1
        self.log_bytes += record.size
        self._waiting_bytes -= record.size
        counts = self.fold.begin(offset, self.epoch)
        assert counts, "the epoch is that of this writer"
        at_ms, source = record.at_ms, record.source
        if record.kind == _TICK:
            self._is_ticking = self._is_ticking and source is not None
            self.fold.tick(at_ms)
        if source is not None:
            self.copied.note(source)
        for ticket, entry in record.entries:
            self.applied = ticket
            self.apply(entry, at_ms, offset)

    def _apply_found(self, raw: RawRecord) -> None:
        """Apply a record that was read because somebody else has written, too."""
        waiting = self._waiting
        first = waiting[0] if waiting else None
        if isinstance(first, Record) and first.is_(raw.header, raw.value):
            waiting.popleft()
            self._apply_own(first, raw.offset)
            return
        self.flush()  # what came of ours is known, whatever follows
        header = self._take(raw)
        self._published += self._replay.take_published()
        if header is None:
            return
        self._fence.compare(header, raw.offset)

    def _write_digest(self) -> None:
        last = None if self._is_ending else self.fold.last_digest
        if last is not None and last[0] > max(self._digested, self.epoch):
            self._digested = last[0]
            self.digests_written += 1
            digest = Digest(*last, self.fold.wide_digest_of(last[0]))
            self._queue(self._records.digest(self._clock.now_ms(), digest))
            self._bursts.send()

    # -- what the broker says

    def flush(self) -> None:
        """See `OpenVhost`; a message that is not in memory is waited for, and all behind it."""
        shard, untold = self.shard, self._untold
        if self._is_telling or self.role is Role.OVER:
            return
        if not (untold or shard.outbound or shard.events.kinds or self._published):
            return  # as after nearly all that a client sends: it is applied later
        self._is_telling = True
        try:
            if shard.outbound:
                untold.extend(self.fold.take_outbound())
            if untold:
                self._tell(untold)
            self._pass_events_on()
        finally:
            self._is_telling = False
        if untold:
            self._asker = self.asking or self._asker
            return
        for name, timeout_ms in shard.take_timed_out():
            if (told := self._timed_out.get(name)) is not None:
                told(timeout_ms)

    def _tell(self, untold: deque[Outbound]) -> None:
        """Tell channels what is for them, up to the first message that is not in memory yet."""
        listeners, message_of = self._listeners, self.stored.get
        while untold:
            out = untold[0]
            listener = listeners.get(out.actor.channel)
            if listener is None:
                pass
            elif isinstance(out, DeliveryOut):
                stored = message_of(out.copy.message)
                if stored is None:
                    return
                listener.delivered(out, stored)
            elif isinstance(out, ConfirmOut):
                listener.confirmed(out)
            elif isinstance(out, ReturnOut):
                stored = message_of(out.message)
                if stored is None:
                    return
                listener.hear(out, stored)
            else:
                listener.hear(out, None)
            untold.popleft()

    def fetched(self) -> None:
        """Go on, since messages are in memory that were asked for."""
        if self._untold:
            self.asking = self._asker
            try:
                self.flush()
            except DlxError as error:
                self.fail(str(error))
            self.asking = None
            if not self._untold:
                self._asker = None
        self._apply()

    # -- snapshots

    @property
    def resident_bytes(self) -> int:
        """See `OpenVhost`: bodies of the messages in queues, in memory or not."""
        return self.shard.state.resident()[1]

    @property
    def held_bytes(self) -> int:
        """See `OpenVhost`."""
        return self.stored.held_bytes

    def snapshot(self) -> Snapshot | None:
        """The state at the next offset; None if clients have to be told something first.

        There is none of a vhost that is OVER: it may have applied a part of a record.
        """
        if self._untold or self._is_telling or self.role is Role.OVER:
            return None
        self.flush()
        if self._untold:
            return None
        self.copied.save()
        batch = self.fold.finish()
        self._untold.extend(batch.outbound)
        self.stored.count(batch.events, [])
        self.shard = self._shard_of(self.config, self.stored)
        self._fold = self.fold = LogFold(self.shard, self._store, self.terms)
        needed_from = self._needed_from()
        self._store.write(NEEDED, self.stored.needed.at_rest())
        return Snapshot(
            self.fold.next_offset, dict(self._store.values), self.fold.of_epoch, needed_from
        )

    def _needed_from(self) -> int:
        """From where on a fold of the snapshot that is being made needs the log."""
        needed, state = self.stored.needed, self.shard.state
        found = needed.first(self.fold.next_offset)
        needed.rest(redrives_are_open=state.redrives.are_open)
        copies = state.resident()[0]
        if len(needed) == copies:
            return found
        logger.warning(
            "vhost %s: its log is not trimmed: %s copies are in queues, and %s entered and did not "
            "leave",
            *(self.name, copies, len(needed)),
        )
        return 0
