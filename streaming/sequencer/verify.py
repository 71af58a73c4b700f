"""Folds a range of a log again, and says where two folds of it part.

    state A --fold--> digests == those in the log?
                      what came of each record == that of the fold from state B?

Digests in the log say within which range of offsets two folds part: that of the front which wrote
them, and this one. Two folds that are made here are compared record by record.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from streaming.broker.config import ShardConfig
from streaming.broker.sequence.log_fold import FoldsDifferError, LogFold, Terms
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.protocol.log_records import LogKind, UnknownRecordError, read_digest
from streaming.sequencer.bodies import Bodies, Fetch
from streaming.sequencer.copied_positions import CopiedPositions
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.needed_offsets import KEY, NeededOffsets
from streaming.sequencer.replay import Replay

_BODY_BYTES: Final = 64 << 20


class Parting(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where two folds part.

    Attributes:
        first, last: the records among which the first one is that differs.
        here, there: the digests, where that of the log differs.
    """

    first: int
    last: int
    here: str = ""
    there: str = ""

    def __str__(self) -> str:
        if self.there:
            return (
                f"parts from the log between offset {self.first} and {self.last}: the digest is "
                f"{self.here} here and {self.there} in the log"
            )
        if self.first == self.last:
            return f"the two folds part at the record at offset {self.first}"
        return f"the states of the two folds differ before the record at offset {self.last}"


class Verdict(msgspec.Struct):
    """What a verification found.

    Attributes:
        begin: where the state was that was folded on from; 0 is the start.
        end: the first offset that was not folded.
        digests: how many in the log were compared.
        equal_to: the log's digests are equal up to this offset; 0 if none was compared.
        parting: None if no difference was found.
    """

    begin: int
    end: int
    digests: int = 0
    equal_to: int = 0
    parting: Parting | None = None


class RangeFold:
    """A fold of a range of a log; it tells nobody, and writes nothing.

    Args:
        fetch: reads messages from the log.
        entries: of the state store, as a snapshot has them; none: from the start.
        terms: of this program; None: those of the log do not matter.

    Attributes:
        fold: of the log.
        entries: of the state store; they change when `fold` ends.
        digests: those of the log that were compared, and equal: how many, and the last boundary.
    """

    def __init__(
        self,
        config: ShardConfig,
        fetch: Fetch,
        entries: dict[str, bytes] | None = None,
        *,
        terms: Terms | None,
    ) -> None:
        store = MemoryStore()
        store.values.update(entries or {})
        self._bodies = Bodies(_BODY_BYTES, fetch, lambda: None)
        self._bodies.needed = NeededOffsets(store.read(KEY))
        shard = Shard(config, store, published=self._bodies.published)
        self.fold = LogFold(shard, store, terms)
        self.digests = (0, 0)
        self.entries = store.values
        self._replay = Replay(self._bodies, CopiedPositions(store))

    def take(self, record: RawRecord) -> None:
        """Fold the next record.

        Raises:
            FoldsDifferError: a digest of the log is not that of this fold.
            NewerLogError, OtherTermsError: this program must not fold it.
        """
        try:
            header = self._replay.take(self.fold, record)
        except UnknownRecordError:
            return  # no fold takes it for one of the log
        if header.kind == LogKind.DIGEST and header.epoch == self.fold.epoch:
            boundary = read_digest(record.value or b"").boundary
            if self.fold.digest_of(boundary) is not None:
                self.digests = (self.digests[0] + 1, boundary)

    def rest(self) -> None:
        """Forget what came of the records so far."""
        self.fold.take_outbound()
        self._bodies.count(self.fold.take_events(), self._replay.take_published())


def verify(
    fold: RangeFold, records: Iterable[list[RawRecord]], other: RangeFold | None = None
) -> Verdict:
    """Fold records, and compare.

    Args:
        records: from the next offset of `fold` on, in portions; up to that of `other` at least.
        other: another fold, to compare with; it has come as far or farther.

    Raises:
        NewerLogError, OtherTermsError: this program must not fold the log.
    """
    begin = fold.fold.next_offset
    both = _Both(fold, other)
    parting = None
    for portion in records:
        for record in portion:
            parting = both.take(record)
            if parting is not None:
                break
        both.rest()
        if parting is not None:
            break
    if parting is None:
        parting = both.end()
    digests, equal_to = fold.digests
    return Verdict(begin, fold.fold.next_offset, digests, equal_to, parting)


class _Both:
    """A fold, and perhaps another one that begins at the same record or at a later one."""

    def __init__(self, fold: RangeFold, other: RangeFold | None) -> None:
        self._fold = fold
        self._other = other
        self._has_begun = False

    def take(self, record: RawRecord) -> Parting | None:
        """Fold a record; return how the folds differ, if they do now."""
        offset = record.offset
        other = self._other
        if other is not None and not self._has_begun and offset >= other.fold.next_offset:
            self._has_begun = True
            if self._differ(other):
                return Parting(0, offset)
        try:
            self._fold.take(record)
            if other is not None and self._has_begun:
                other.take(record)
        except FoldsDifferError as error:
            return Parting(error.first, error.boundary, error.here.hex(), error.there.hex())
        if other is not None and self._has_begun and self._differ(other):
            return Parting(offset, offset)
        return None

    def end(self) -> Parting | None:
        """Compare at the end, too: perhaps no record is behind the state of the other fold."""
        other = self._other
        if other is None or self._has_begun or not self._differ(other):
            return None
        return Parting(0, other.fold.next_offset)

    def _differ(self, other: RangeFold) -> bool:
        return self._fold.fold.in_short() != other.fold.in_short()

    def rest(self) -> None:
        """Forget what came of the records so far."""
        self._fold.rest()
        if self._other is not None:
            self._other.rest()
