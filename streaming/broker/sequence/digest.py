"""What came of a log, in short, so that two folds of it can be compared.

The numbers go column by column into running checksums (CRC-32), so they do not depend on where the
log was cut into batches. Every `SEGMENT` offsets a segment ends: its digest covers the events and
the outbound records of all records before that offset. Digests are chained.

A second, wide digest covers more of the segment alone: who gets deliveries, as what and how often
before, what dead letters carry, and more of answers. Earlier versions have none. So a fold has none
of a segment that one of them began, and one that is missing in the log is not compared.
"""

import zlib
from array import array
from hashlib import blake2b
from typing import Final

import msgspec

from streaming.broker.events import Events, Kind
from streaming.broker.message import Envelope
from streaming.broker.outbound import (
    AnswerOut,
    CancelOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)

SEGMENT: Final = 4_096
"""A segment ends before the first record whose offset is a multiple of this, or higher."""

KEPT: Final = 64
"""How many of the last digests a fold remembers: one is compared later than it is made."""

_NONE: Final = -1
_DELIVERY, _CONFIRM = 1, 2
_OUTBOUND: Final[dict[type, int]] = {
    ReturnOut: 3,
    PublishErrorOut: 4,
    AnswerOut: 5,
    CancelOut: 6,
}
_SHIFT: Final = 8
_WIDE: Final = 3
_MOST: Final = (1 << 63) - 1
_CONSUMER, _REQUEUED = 40, 20
"""Where the number of a consumer, and how often a copy was requeued, are in that of a delivery."""


class DigestRecord(msgspec.Struct, array_like=True):
    """The digest of a fold at rest.

    Attributes:
        boundary: the segment that is open ends before this offset.
        sums: of its columns: kinds, queues, copies, messages, numbers, deaths, refusals, outbound.
        previous: the digest of the segment before.
        recent: the last digests with their boundaries, oldest first.
        wide: sums of the columns of the wide digest: names and numbers of outbound records, dead
            letters. None: the segment was begun without.
        wide_recent: like `recent`.
    """

    boundary: int
    sums: list[int] = msgspec.field(default_factory=lambda: [0] * 8)
    previous: bytes = b""
    recent: list[tuple[int, bytes]] = []
    wide: list[int] | None = None
    wide_recent: list[tuple[int, bytes]] = []


def no_digest() -> DigestRecord:
    """The digest of a fold that has not begun."""
    return DigestRecord(SEGMENT, wide=[0] * _WIDE)


class RunningDigest:
    """The digest of one fold.

    Attributes:
        record: what it rests as.
    """

    def __init__(self, record: DigestRecord) -> None:
        self.record = record

    def add_events(self, events: Events, first_row: int) -> None:
        """Add the events from a row on."""
        kinds = events.kinds[first_row:]
        if not kinds:
            return
        crc = zlib.crc32
        sums = self.record.sums
        sums[0] = crc(bytes(kinds), sums[0])
        sums[1] = crc("\0".join([*events.queues[first_row:], ""]).encode(), sums[1])
        copies = events.copies[first_row:]
        ids = [_NONE if copy is None else copy.copy_id for copy in copies]
        sums[2] = crc(array("q", ids).tobytes(), sums[2])
        offsets = [_NONE if copy is None else copy.message.offset for copy in copies]
        sums[3] = crc(array("q", offsets).tobytes(), sums[3])
        sums[4] = crc(array("q", events.numbers[first_row:]).tobytes(), sums[4])
        self._add_deaths(events, first_row)
        if events.messages or events.details:
            self._add_rest(events, first_row)

    def _add_deaths(self, events: Events, first_row: int) -> None:
        rows = events.death_rows
        if not rows or rows[-1] < first_row:
            return
        outcomes = [
            outcome
            for row, outcome in zip(rows, events.death_outcomes, strict=True)
            if row >= first_row
        ]
        texts = ["\0".join((one.reason, one.outcome, *one.targets, "\n")) for one in outcomes]
        self.record.sums[5] = zlib.crc32("".join(texts).encode(), self.record.sums[5])
        wide = self.record.wide
        if wide is not None:
            letters = "".join(_in_words(one.envelope) for one in outcomes)
            wide[2] = zlib.crc32(letters.encode(), wide[2])

    def _add_rest(self, events: Events, first_row: int) -> None:
        """Add what rows without a copy say: their messages, and the codes of refusals."""
        found = [
            (row, message.offset)
            for row, (message, _envelope) in events.messages.items()
            if row >= first_row
        ]
        found += [
            (row, detail["code"])
            for row, detail in events.details.items()
            if row >= first_row and events.kinds[row] == Kind.COMMAND_ERROR
        ]
        found.sort()  # as if the events came one by one
        numbers = [number for row, what in found for number in (events.first_seq + row, what)]
        self.record.sums[6] = zlib.crc32(array("q", numbers).tobytes(), self.record.sums[6])

    def add_outbound(self, outbound: list[Outbound]) -> None:
        """Add what clients are told."""
        found: list[int] = []
        names: list[str] = []
        numbers: list[int] = []
        for out in outbound:
            kind = type(out)
            names.append(out.actor.channel)
            if kind is DeliveryOut:
                found.append(_DELIVERY | out.tag << _SHIFT)  # type: ignore[union-attr] # a delivery
                names.append(out.label)  # type: ignore[union-attr]
                number = (
                    (out.consumer_number << _CONSUMER)  # type: ignore[union-attr]
                    + (out.requeue_count << _REQUEUED)  # type: ignore[union-attr]
                    + out.failures  # type: ignore[union-attr]
                )
                numbers.append(number & _MOST)  # a channel may have had very many consumers
            elif kind is ConfirmOut:
                found.append(_CONFIRM | (out.message.offset * 2 + out.ack) << _SHIFT)  # type: ignore[union-attr]
            else:
                found.append(_OUTBOUND[kind])
                _add_rare(out, names, numbers)
        sums, wide = self.record.sums, self.record.wide
        sums[7] = zlib.crc32(array("q", found).tobytes(), sums[7])
        if wide is not None:
            wide[0] = zlib.crc32("\0".join([*names, ""]).encode(), wide[0])
            wide[1] = zlib.crc32(array("q", numbers).tobytes(), wide[1])

    def close(self, next_offset: int, next_seq: int, next_outbound: int, now_ms: int) -> bytes:
        """End the segment before an offset; return its digest."""
        record = self.record
        numbers = array("q", (*record.sums, next_seq, next_outbound, now_ms)).tobytes()
        digest = blake2b(record.previous + numbers, digest_size=8).digest()
        record.recent = [*record.recent, (record.boundary, digest)][-KEPT:]
        record.previous = digest
        if record.wide is not None:
            wide = blake2b(array("q", record.wide).tobytes(), digest_size=8).digest()
            record.wide_recent = [*record.wide_recent, (record.boundary, wide)][-KEPT:]
        record.wide = [0] * _WIDE
        record.sums = [0] * len(record.sums)
        record.boundary = (next_offset // SEGMENT + 1) * SEGMENT
        return digest

    def of(self, boundary: int) -> bytes | None:
        """The digest of the segment that ended at a boundary; None if it is not known any more."""
        return dict(self.record.recent).get(boundary)

    def wide_of(self, boundary: int) -> bytes:
        """The wide digest of that segment; empty if it is not known."""
        return dict(self.record.wide_recent).get(boundary, b"")


def _add_rare(out: Outbound, names: list[str], numbers: list[int]) -> None:
    """Add what else is told than deliveries and confirms."""
    if isinstance(out, AnswerOut):
        names.append(out.op)
        numbers.append(0 if out.refusal is None else out.refusal.code)
    elif isinstance(out, PublishErrorOut):
        numbers.append(out.refusal.code)
    elif isinstance(out, ReturnOut):
        numbers.append(out.code)
    else:
        names.append(out.consumer)  # type: ignore[union-attr] # a cancellation


def _in_words(envelope: Envelope) -> str:
    """The deaths that a dead letter carries, and where it went."""
    deaths = "".join(
        f"{one.count} {one.reason}\0{one.queue}\0{one.time_s} {one.exchange}\0"
        for one in envelope.deaths
    )
    return "\0".join((deaths, envelope.exchange, *envelope.routing_keys, "\n"))
