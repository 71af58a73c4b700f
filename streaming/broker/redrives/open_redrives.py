"""The open redrives of a shard: received, started, moved in ticks, followed, ended.

    receiving --all letters are there--> running --no letter is left--> finished
                                         |  ^  |
                            pause, stop  v  |  +--cancel--> cancelled
                                   paused, stopped

Nothing but the log and the clock moves a letter. A running redrive has a tick every `TICK_MS` at
most; at a tick it decides on what has happened to its letters until then. Endings of moved copies
are read from the batch's events, at ticks and when the batch ends, so that what a tick knows does
not depend on where the log is cut.

In a vhost of several lanes each lane moves its own letters, and `agreement` decides for all of them
together: a redrive has the same status on every lane.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import TimerKind
from streaming.broker.commands import Redrive, RedriveVerdict
from streaming.broker.context import ShardContext
from streaming.broker.events import ENDING_KINDS, Kind
from streaming.broker.message import NEVER
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.redrive_letters import Letter
from streaming.broker.redrives import agreement, records
from streaming.broker.redrives.agreement import LaneNote, agreed
from streaming.broker.redrives.claims import Claims
from streaming.broker.redrives.moves import IN_QUEUE, Mover
from streaming.broker.redrives.present_copies import present_copies
from streaming.broker.redrives.rate import earn, first_credit, pay
from streaming.broker.redrives.records import Chunk, ChunkRecord, ClosedRecord, OpenRecord
from streaming.broker.state.encoding import pack, unpack

TICK_MS: Final = 100
WAIT_MS: Final = 1_000
"""How soon letters are tried again whose target is full, or whose canary is not settled."""

MAX_AT_ONCE = 1_000
"""Letters that one tick moves or skips."""

MAX_LATE_TICKS: Final = 10
"""When time moves far at once, a redrive has at most this many ticks."""

IN_REDRIVE: Final = "in_redrive"

_KEY: Final = "redrives"
_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode
_open = msgspec.msgpack.Decoder(list[OpenRecord])
_chunk = msgspec.msgpack.Decoder(ChunkRecord)
_closed = msgspec.msgpack.Decoder(ClosedRecord)
_GOOD: Final = frozenset({int(Kind.ACKED), int(Kind.CONSUMED)})


class OpenRedrives:
    """The redrives of one shard during one batch.

    Args:
        due_ms: the next tick, or NEVER; None if no redrive is open.

    Attributes:
        due_ms: the next tick; NEVER if no redrive waits for one.
    """

    def __init__(
        self,
        context: ShardContext,
        queues: QueueRegistry,
        channels: ChannelRegistry,
        due_ms: int | None,
    ) -> None:
        self._context = context
        self._queues = queues
        self._channels = channels
        self.due_ms = NEVER if due_ms is None else due_ms
        self._claims = Claims(context.store)
        self._is_alone = context.config.lanes == 1
        self._scanned = 0
        self._armed_ms = self.due_ms
        self._changed = False
        data = None if due_ms is None else context.store.read(_KEY)
        known = [] if data is None else _open.decode(unpack(data))
        self._records = {record.id: record for record in known}

    @property
    def are_open(self) -> bool:
        """Whether any redrive is open."""
        return bool(self._records)

    # -- what commands ask

    def named(self, redrive_id: str) -> OpenRecord | ClosedRecord | None:
        """A redrive, open or ended."""
        record = self._records.get(redrive_id)
        if record is not None:
            return record
        data = self._context.store.read(f"redriven/{redrive_id}")
        return None if data is None else _closed.decode(unpack(data))

    def receive(self, command: Redrive, user: str | None) -> OpenRecord:
        """Open a redrive, or add the next part of its letters; start it once it is complete."""
        context = self._context
        record = self._records.get(command.id)
        if record is None:
            number = context.events.next_seq
            record = OpenRecord(
                command.id,
                number,
                user,
                command.reason,
                command.seal,
                command.options,
                command.total,
                opened_by=None if context.place is None else context.place[:2],
            )
            self._records[command.id] = record
            options = msgspec.to_builtins(command.options)
            detail = {"seal": command.seal, "total": command.total, "options": options}
            self._record(record, "requested", command.reason, **detail)
        self._scan()
        lane = context.config.lane
        mine = [letter for letter in command.letters if letter.lane == lane]
        first = command.letters[: max(record.options.canary - command.first, 0)]
        record.share += sum(letter.lane == lane for letter in first)
        letters = list(self._unclaimed(record, mine))
        if letters:
            record.chunks.append(self._write(record, command.first, letters))
        record.received += len(command.letters)
        self._changed = True
        if record.is_complete and record.status == records.RECEIVING:
            self._start(record)
        self._arm()
        return record

    def _unclaimed(self, record: OpenRecord, letters: list[Letter]) -> Iterator[Letter]:
        """Yield the letters that are in no open redrive yet; skip the others.

        A letter that would be published again is skipped too if a queue still has its copy.
        """
        ids = {one.number: one.id for one in self._records.values()}
        found = self._claims.of(letter.copy_id for letter in letters)
        claimed = {copy_id: ids[number] for copy_id, number in found.items()}
        new: list[int] = []
        stored = {letter.copy_id for letter in letters if letter.stored is not None}
        here = stored and present_copies(self._context, self._queues, self._channels, stored)
        for letter in letters:
            other_id = claimed.get(letter.copy_id)
            if other_id is None and (letter.stored is None or letter.copy_id not in here):
                claimed[letter.copy_id] = record.id
                new.append(letter.copy_id)
                yield letter
                continue
            record.skipped += 1
            detail = {"redrive": record.id, "copy_id": letter.copy_id, "reason": IN_QUEUE}
            if other_id is not None:
                detail |= {"reason": IN_REDRIVE, "other": other_id}
            self._context.events.add(Kind.SKIPPED, letter.queue, detail=detail)
        self._claims.add(record.number, new)

    def has_letters(self, redrive_id: str, first: int) -> bool:
        """Whether a redrive has ended, or has received its letters from a number on."""
        known = self.named(redrive_id)
        return isinstance(known, ClosedRecord) or (known is not None and first < known.received)

    def pause(self, record: OpenRecord, reason: str) -> None:
        """Let no letter move until the redrive is resumed."""
        self._scan()
        self._halt(record, records.PAUSED, reason)
        self._arm()

    def resume(self, record: OpenRecord, reason: str) -> None:
        """Go on after a pause or a stop. A stop is forgiven: the deaths so far, and the canary."""
        self._scan()
        if record.status == records.STOPPED:
            record.excused = record.died
            record.trusted = True
        record.round += 1
        record.status = records.RUNNING if record.is_complete else records.RECEIVING
        self._changed = True
        self._record(record, "resumed", reason)
        if record.is_complete:
            self._advance(record)
        self._arm()

    def obey(self, record: OpenRecord, command: RedriveVerdict) -> None:
        """Do what the lanes agreed on, unless it is of an earlier round."""
        if command.round != record.round or not record.is_complete:
            return
        self._scan()
        self._carry_out(record, command)
        if record.status == records.RUNNING:
            self._advance(record)
        self._arm()

    def cancel(self, record: OpenRecord, reason: str) -> None:
        """End a redrive; letters that have not moved stay where they are."""
        self._close(record, records.CANCELLED, reason)
        self._arm()

    def cancel_all(self, reason: str) -> None:
        """End every redrive."""
        for record in list(self._records.values()):
            self.cancel(record, reason)

    def restore(self, known: list[OpenRecord], ended: dict[str, ClosedRecord]) -> None:
        """Set what is known of redrives in a state that is being rebuilt."""
        self._records = {record.id: record for record in known}
        self._changed = bool(known)
        for redrive_id, record in ended.items():
            self._context.store.write(f"redriven/{redrive_id}", pack(_encode(record)))
        self._arm()

    # -- time

    def tick(self) -> None:
        """Move the letters of each redrive that is due."""
        self._armed_ms = NEVER
        self._scan()
        now_ms = self._context.clock.now_ms
        for record in sorted(self._records.values(), key=lambda record: record.number):
            if record.status == records.RUNNING and record.next_ms <= now_ms:
                self._advance(record)
        self._arm()

    def finish(self) -> None:
        """Read the fate of moved letters from the events so far."""
        self._scan()

    def events_taken(self) -> None:
        """Do the same, because these events are taken: the next one has row 0."""
        self._scan()
        self._scanned = 0

    def save(self) -> None:
        """Write back what was changed."""
        if not self._changed:
            return
        store = self._context.store
        if self._records:
            store.write(_KEY, pack(_encode(list(self._records.values()))))
        else:
            store.delete(_KEY)

    # -- one redrive

    def _start(self, record: OpenRecord) -> None:
        record.status = records.RUNNING
        record.moved_at_ms = self._context.clock.now_ms
        config = self._context.config
        record.credit = first_credit(record, config.lane, config.lanes)
        self._advance(record)

    def _advance(self, record: OpenRecord) -> None:
        """Do a tick of a running redrive."""
        now_ms = self._context.clock.now_ms
        self._changed = True
        verdict = agreed([self._note(record)]) if self._is_alone else None
        if verdict is not None:
            self._carry_out(record, verdict)
            if record.status != records.RUNNING:
                return
        allowed, wait_ms = self._allowance(record, now_ms)
        moved, skipped = record.moved, record.skipped + record.parked
        if allowed > 0:
            self._move(record, allowed)
        used = record.moved - moved
        skipped = record.skipped + record.parked - skipped
        pay(record, used, self._context.config.lanes)
        if not record.chunks and self._is_alone:
            self._close(record, records.FINISHED, "")
            return
        if not record.chunks:
            record.next_ms = NEVER  # the other lanes may have letters yet
            return
        if used + skipped >= MAX_AT_ONCE:
            wait_ms = TICK_MS
        elif not used and (allowed > 0 or not self._may_move(record)):
            wait_ms = max(wait_ms, WAIT_MS)
        late_ms = self._context.clock.heading_ms - MAX_LATE_TICKS * wait_ms
        record.next_ms = max(now_ms + wait_ms, late_ms)

    def _allowance(self, record: OpenRecord, now_ms: int) -> tuple[int, int]:
        """How many letters may move now, and how long to wait for the next tick."""
        allowed, wait_ms = self._may_move(record), TICK_MS
        earned = earn(record, now_ms, self._context.config.lanes)
        if earned is not None:
            allowed, wait_ms = min(allowed, earned[0]), max(wait_ms, earned[1])
        return allowed, wait_ms

    def _may_move(self, record: OpenRecord) -> int:
        """How many letters may move, whatever the rate: the rules may have them wait for others.

        A lane whose own letters break a rule that is for all lanes waits for the verdict.
        """
        options = record.options
        if options.stop_after is not None and record.died - record.excused >= options.stop_after:
            return 0
        if options.canary and not record.trusted:
            return max(record.share - record.moved, 0)
        return MAX_AT_ONCE

    def _move(self, record: OpenRecord, allowed: int) -> None:
        """Move letters, chunk by chunk, in their sealed order."""
        mover = Mover(self._context, self._queues, record, allowed, MAX_AT_ONCE)
        chunks: list[Chunk] = []
        for index, chunk in enumerate(record.chunks):
            if not (mover.left and mover.effort):
                chunks += record.chunks[index:]
                break
            left = self._move_chunk(record, chunk, mover)
            if left.letters:
                chunks.append(left)
        record.chunks = chunks

    def _move_chunk(self, record: OpenRecord, chunk: Chunk, mover: Mover) -> Chunk:
        """Move letters of a chunk; return what is left of it."""
        if mover.blocked and not record.may_move(chunk, mover.blocked):
            return chunk
        letters = self._read(record, chunk.number)
        left: list[Letter] = []
        start = 0
        while start < len(letters) and mover.left and mover.effort:
            end = start + min(mover.left, mover.effort)
            left += mover.handle(letters[start:end])
            start = end
        left += letters[start:]
        if len(left) == len(letters):
            return chunk
        kept = {letter.copy_id for letter in left}
        self._claims.release({letter.copy_id for letter in letters} - kept)
        return self._write(record, chunk.number, left)

    def _carry_out(self, record: OpenRecord, verdict: RedriveVerdict) -> None:
        """Begin the next round with a verdict on all lanes."""
        record.round += 1
        self._changed = True
        match verdict.verdict:
            case agreement.FINISH:
                self._close(record, records.FINISHED, "")
            case agreement.STOP:
                self._halt(record, records.STOPPED, verdict.reason)
            case agreement.TRUST:
                record.trusted = True
            case agreement.SHARE if verdict.lane == self._context.config.lane:
                record.share += verdict.share

    def _halt(self, record: OpenRecord, status: str, reason: str) -> None:
        record.status = status
        record.next_ms = NEVER
        self._changed = True
        self._record(record, status, reason)

    def _close(self, record: OpenRecord, status: str, reason: str) -> None:
        """End a redrive, and remember its id for ever."""
        record.status = status
        for chunk in record.chunks:
            self._claims.release(letter.copy_id for letter in self._read(record, chunk.number))
            self._context.store.delete(self._chunk_key(record, chunk.number))
        left = record.left()
        del self._records[record.id]
        self._changed = True
        self._record(record, status, reason, left=left)
        closed = ClosedRecord(
            record.seal, status, record.total, record.moved, record.skipped, record.parked
        )
        self._context.store.write(f"redriven/{record.id}", pack(_encode(closed)))

    # -- what becomes of the letters

    def _scan(self) -> None:
        """Count the fates of followed letters in the events since the last call."""
        events = self._context.events
        first, self._scanned = self._scanned, len(events)
        following = {
            copy_id: record for record in self._records.values() for copy_id in record.following
        }
        if not following:
            return
        kinds, copies = events.kinds, events.copies
        for row in range(first, self._scanned):
            if kinds[row] not in ENDING_KINDS:
                continue
            copy = copies[row]
            assert copy is not None, "every ending is of a copy"
            record = following.get(copy.copy_id)
            if record is None:
                continue
            record.following.discard(copy.copy_id)
            self._changed = True
            if kinds[row] in _GOOD:
                record.acked += 1
            elif kinds[row] == Kind.DIED:
                record.died += 1
            else:
                record.removed += 1

    def notes(self) -> list[LaneNote]:
        """How far each open redrive has come on this lane; none in a vhost of one lane."""
        return [] if self._is_alone else [self._note(each) for each in self._records.values()]

    @staticmethod
    def _note(record: OpenRecord) -> LaneNote:
        return LaneNote(
            *(record.id, record.user, record.options, record.round, record.status, record.trusted),
            *(record.share, record.left(), record.moved, len(record.following)),
            *(record.acked, record.died, record.removed, record.excused),
            opened_by=record.opened_by,
        )

    # -- at rest

    def _arm(self) -> None:
        """Set the timer of the next tick."""
        running = [
            record.next_ms for record in self._records.values() if record.status == records.RUNNING
        ]
        self.due_ms = min(running, default=NEVER)
        if self.due_ms not in {NEVER, self._armed_ms}:
            self._armed_ms = self.due_ms
            self._context.clock.arm(self.due_ms, TimerKind.REDRIVE, 0)

    def _read(self, record: OpenRecord, number: int) -> list[Letter]:
        """The letters of a chunk; none in a state that was rebuilt, which does not know them."""
        data = self._context.store.read(self._chunk_key(record, number))
        return [] if data is None else _chunk.decode(unpack(data)).letters

    def _write(self, record: OpenRecord, number: int, letters: list[Letter]) -> Chunk:
        """Write the letters that a chunk still has."""
        key = self._chunk_key(record, number)
        if letters:
            self._context.store.write(key, pack(_encode(ChunkRecord(letters))))
        else:
            self._context.store.delete(key)
        targets = dict.fromkeys(letter.target for letter in letters)
        return Chunk(number, len(letters), record.mask(targets))

    @staticmethod
    def _chunk_key(record: OpenRecord, number: int) -> str:
        return f"redrive/{record.number}/{number}"

    def _record(self, record: OpenRecord, what: str, reason: str, **more: Any) -> None:
        detail: dict[str, Any] = {"redrive": record.id, "what": what}
        if reason:
            detail["reason"] = reason
        if what != "requested":
            counts = {"moved": record.moved, "skipped": record.skipped, "parked": record.parked}
            detail.update(counts)
        self._context.events.add(Kind.REDRIVE, detail={**detail, **more})
