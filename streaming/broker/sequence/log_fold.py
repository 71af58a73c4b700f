"""A shard that follows the log of a sequenced vhost: the front's and the job's fold of it.

    records, by offset --> LogFold --> Shard --> events, outbound

Whoever folds the log calls the same methods in the order of the offsets. Nothing but the log
decides: not where it is cut into batches, and not when it is read.

An epoch record begins the epoch of its writer; records of another writer behind it are void, so a
writer that was replaced without knowing it changes nothing (and hears so: it gets other offsets
than it expects). All connections end with the epoch before: the new writer has none of them.

What a client sent behind an error that closed its channel is in the log and does nothing, as in
RabbitMQ: publishes become an event `void`, commands and settlements nothing at all. What the front
copied from Kafka into the log is on channels of its own (COPIED_CHANNEL), which need not be open.
"""

from typing import Final, NamedTuple

import msgspec

from streaming.broker.commands import (
    CloseChannel,
    CloseConnection,
    Command,
    OpenChannel,
    SettleOutcome,
)
from streaming.broker.events import Actor, Events
from streaming.broker.message import Message, Publication
from streaming.broker.outbound import Outbound
from streaming.broker.sequence.digest import DigestRecord, RunningDigest, no_digest
from streaming.broker.shard import Batch, Shard
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.store import StateStore
from topology.errors import DlxError
from topology.refusals import Refusal

NO_EPOCH: Final = -1
"""The epoch of a log that has no epoch record yet."""

_KEY: Final = "log"
_ALWAYS: Final = (OpenChannel, CloseChannel, CloseConnection)
"""Commands that need no open channel."""


class Terms(NamedTuple):
    """What decides outcomes besides the log. All records of an epoch are folded on its terms.

    Attributes:
        core_version: of the broker core.
        rules: a hash of the rest: see `config.shards.rules_of`.
    """

    core_version: int
    rules: str


class OtherTermsError(DlxError):
    """A record of the log belongs to an epoch whose terms are not those of this program."""

    help_code = "log-terms"

    def __init__(self, offset: int, epoch: int, here: Terms, there: Terms) -> None:
        super().__init__(offset, epoch, here, there)
        self.offset = offset
        self.epoch = epoch
        self.here = here
        self.there = there

    def __str__(self) -> str:
        if self.there.core_version != self.here.core_version:
            what = (
                f"broker core {self.there.core_version}; this program has {self.here.core_version}"
            )
            is_older = self.here.core_version < self.there.core_version
            remedy = (
                "Upgrade this program"
                if is_older
                else "Let the version that wrote them fold them first, and upgrade then"
            )
        else:
            what = (
                "other settings that decide outcomes (their hash is "
                f"{self.there.rules} there and {self.here.rules} here)"
            )
            remedy = (
                "Let a program with the settings of before fold them first, or give this one the "
                "settings that the writer has"
            )
        return (
            f"records of the log from offset {self.offset} on were written, in the epoch of "
            f"{self.epoch}, with {what}. {remedy}"
        )


class FoldsDifferError(DlxError):
    """Two folds of one log have parted.

    Attributes:
        first, boundary: the range of offsets in which they did; the end is not included.
        here, there: the digests.
    """

    help_code = "folds-differ"

    def __init__(self, first: int, boundary: int, here: bytes, there: bytes) -> None:
        super().__init__(first, boundary, here, there)
        self.first = first
        self.boundary = boundary
        self.here = here
        self.there = there

    def __str__(self) -> str:
        return (
            f"two folds of the log differ between offset {self.first} and {self.boundary}: "
            f"{self.here.hex()} here, {self.there.hex()} in the log"
        )


class PositionRecord(msgspec.Struct, array_like=True):
    """How far a fold has come, at rest."""

    next_offset: int
    epoch: int
    digest: DigestRecord
    terms: Terms | None = None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(PositionRecord)


class LogFold:
    """Folds the log of a sequenced vhost.

    Args:
        shard: its clock is `event`.
        store: where the state rests.
        terms: of this program; None: those of an epoch do not matter.

    Attributes:
        next_offset: of the first record that was not folded.
        epoch: offset of the epoch record that counts; NO_EPOCH before the first.
        of_epoch: its terms.
        compared: the range of offsets of the last digest that was compared, and equal; None: none
            was, since the fold was opened.
    """

    def __init__(self, shard: Shard, store: StateStore, terms: Terms | None = None) -> None:
        data = store.read(_KEY)
        record = PositionRecord(0, NO_EPOCH, no_digest()) if data is None else _read(data)
        self.shard = shard
        self.next_offset = record.next_offset
        self.epoch = record.epoch
        self.terms = terms
        self.of_epoch = record.terms
        self.compared: tuple[int, int] | None = None
        self._is_foreign = self._refuses(record.terms)
        self._store = store
        self._channels = shard.state.channels
        self._clock = shard.state.context.clock
        self._digest = RunningDigest(record.digest)
        self._rows = 0  # of the events that are in the digest
        self._told = 0  # outbound records likewise

    # -- records

    def begin(self, offset: int, epoch: int) -> bool:
        """Begin with a record; return whether it counts. Only `void` may follow if it does not.

        Raises:
            OtherTermsError: it counts, but not on the terms of this program.
        """
        if epoch != self.epoch or epoch == NO_EPOCH:
            self._reach(offset)
            return False
        if self._is_foreign:
            self._refuse(offset, epoch, self.of_epoch)
        self._reach(offset)
        return True

    def publish(
        self, at_ms: int, message: Message, publication: Publication, flags: int, actor: Actor
    ) -> Refusal | None:
        """Publish a message on a channel; return why it was refused."""
        self.tick(at_ms)  # which may close it
        if not self._may_act(actor):
            self.void(message, actor)
            return None
        return self.shard.publish(at_ms, message, publication, flags, actor)

    def void(self, message: Message, actor: Actor) -> None:
        """Record a publish that does not count, because of its epoch or its channel."""
        self.shard.void(message, actor)

    def command(self, at_ms: int, command: Command, actor: Actor) -> bool:
        """Carry out a command of a channel, or of the operator; return whether it counts."""
        self.tick(at_ms)  # which may close it
        if (
            actor.channel
            and actor.user is not None
            and not isinstance(command, _ALWAYS)
            and not self._may_act(actor)
        ):
            return False
        self.shard.command(at_ms, command, actor)
        return True

    def settle(
        self,
        at_ms: int,
        actor: Actor,
        tag: int,
        last: int,
        *,
        multiple: bool,
        outcome: SettleOutcome,
        reason: str | None = None,
    ) -> Refusal | None:
        """Settle deliveries of a channel; a refusal has closed the channel."""
        self.tick(at_ms)  # which may close it
        if self._channels.get(actor.user, actor.channel) is None:
            return None
        return self.shard.settle(
            at_ms, actor, tag, last, multiple=multiple, outcome=outcome, reason=reason
        )

    def tick(self, at_ms: int) -> None:
        """Let time pass."""
        if at_ms > self._clock.now_ms:
            self.shard.advance(at_ms)

    def begin_epoch(self, at_ms: int, offset: int, terms: Terms | None = None) -> None:
        """Another writer begins: what the one before had open ends.

        Args:
            terms: of the epoch.

        Raises:
            OtherTermsError: they are not those of this program.
        """
        if self._refuses(terms):
            self._refuse(offset, offset, terms)
        self._reach(offset)
        self.tick(at_ms)
        self.epoch = offset
        self.of_epoch, self._is_foreign = terms, False
        self.shard.close_all("epoch")

    def _may_act(self, actor: Actor) -> bool:
        """Whether a channel is open, or need not be."""
        return self._channels.is_open(actor.user, actor.channel) or actor.is_copied

    def _reach(self, offset: int) -> None:
        """Go on to a record."""
        if offset >= self._digest.record.boundary:
            self._close_segment(offset)
        self.next_offset = offset + 1

    def _refuses(self, terms: Terms | None) -> bool:
        return None not in {terms, self.terms} and terms != self.terms

    def _refuse(self, offset: int, epoch: int, terms: Terms | None) -> None:
        assert self.terms is not None
        assert terms is not None
        raise OtherTermsError(offset, epoch, self.terms, terms)

    # -- digests

    def digest_of(self, boundary: int) -> bytes | None:
        """The digest of the segment that ended at a boundary; None if it is not known any more."""
        return self._digest.of(boundary)

    def wide_digest_of(self, boundary: int) -> bytes:
        """The wide digest of that segment; empty if this fold has none."""
        return self._digest.wide_of(boundary)

    @property
    def last_digest(self) -> tuple[int, bytes] | None:
        """The newest digest, with its boundary."""
        recent = self._digest.record.recent
        return recent[-1] if recent else None

    def in_short(self) -> tuple[bytes | int, ...]:
        """What has come of the log so far; equal in equal folds."""
        self._note()
        shard = self.shard
        record = self._digest.record
        next_outbound = shard.state.first_outbound + len(shard.outbound)
        numbers = (shard.events.next_seq, next_outbound, shard.now_ms)
        return record.previous, *record.sums, *(record.wide or ()), *numbers

    def compare(self, boundary: int, digest: bytes, wide: bytes = b"") -> None:
        """Compare a digest in the log with that of this fold, if that is still known.

        Args:
            wide: that too; empty if the log has none.

        Raises:
            FoldsDifferError: they differ.
        """
        first = 0
        for known, here in self._digest.record.recent:
            if known == boundary:
                if here != digest:
                    raise FoldsDifferError(first, boundary, here, digest)
                wide_here = self._digest.wide_of(boundary)
                if wide and wide_here and wide != wide_here:
                    raise FoldsDifferError(first, boundary, wide_here, wide)
                self.compared = first, boundary
            first = known

    def _close_segment(self, offset: int) -> None:
        self._note()
        shard = self.shard
        next_outbound = shard.state.first_outbound + len(shard.outbound)
        self._digest.close(offset, shard.events.next_seq, next_outbound, shard.now_ms)

    def _note(self) -> None:
        """Add what has happened to the digest."""
        shard = self.shard
        self._digest.add_events(shard.events, self._rows)
        self._rows = len(shard.events)
        if len(shard.outbound) > self._told:
            self._digest.add_outbound(shard.outbound[self._told :])
            self._told = len(shard.outbound)

    # -- what came of it

    def take_outbound(self) -> list[Outbound]:
        """See `Shard.take_outbound`."""
        self._note()
        self._told = 0
        return self.shard.take_outbound()

    def take_events(self) -> Events:
        """See `Shard.take_events`."""
        self._note()
        self._rows = 0
        return self.shard.take_events()

    def finish(self) -> Batch:
        """End the batch: the state and the position are written. Do not use the fold afterwards."""
        self._note()
        record = PositionRecord(self.next_offset, self.epoch, self._digest.record, self.of_epoch)
        self._store.write(_KEY, pack(_encoder.encode(record)))
        return self.shard.finish()


def _read(data: bytes) -> PositionRecord:
    return _decoder.decode(unpack(data))
