"""What happens in a sequenced vhost as records of its log: the writing half; see `replay.py`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from streaming.amqp.entries import Ask, Entry, Publish, Settle, Then
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.sequence.log_fold import NO_EPOCH
from streaming.protocol.command_codec import encode_command
from streaming.protocol.copied_records import COPIED, Source
from streaming.protocol.log_records import (
    CONTENT,
    FIRST_VERSION,
    LOG,
    ROUTED_VERSION,
    Digest,
    Epoch,
    LogHeader,
    LogKind,
    Settlement,
    encode,
)

Headers = list[tuple[str, bytes]]

MAX_SETTLEMENTS: Final = 1_000
"""Settlements of one record, which must not become larger than Kafka takes."""

_MAX_KNOWN: Final = 20_000
_PUBLISH: Final = int(LogKind.PUBLISH)


class Record(msgspec.Struct, gc=False):
    """A record to append.

    Attributes:
        kind: see `LogKind`.
        size: bytes of its value and of the properties of a message.
        entries: what is applied when Kafka has it, with its tickets; nothing of ticks and digests.
        source: up to where inputs are copied then; None: as far as before.
        queued_s: since when it waits to be applied, by a clock that never goes back.
    """

    kind: int
    at_ms: int
    headers: Headers
    value: bytes | None
    size: int
    entries: Sequence[tuple[int, Ask | Publish | Settle]] = ()
    source: Source | None = None
    queued_s: float = 0.0

    def is_(self, header: bytes | None, value: bytes | None) -> bool:
        """Whether a record of the log has this header `dlx-log` and this value."""
        return self.headers[0][1] == header and (self.value or b"") == (value or b"")


class RecordWriter:
    """Makes the records of one writer.

    Args:
        epoch: offset of the epoch record of the writer.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._publishes: dict[tuple[Actor, Publication, int], tuple[str, bytes]] = {}
        self._others = {kind: self._plain(kind) for kind in LogKind}

    def of_turn(
        self, at_ms: int, turn: Iterable[tuple[int, Entry]]
    ) -> Iterator[Record | tuple[int, Then]]:
        """Yield the records of what clients did; settlements in a row share one.

        What needs no record is yielded as it is, in its place.
        """
        settles: list[tuple[int, Settle]] = []
        for ticket, entry in turn:
            if isinstance(entry, Settle) and len(settles) < MAX_SETTLEMENTS:
                settles.append((ticket, entry))
                continue
            if settles:
                yield self.settlements(at_ms, settles)
                settles = []
            if isinstance(entry, Settle):
                settles.append((ticket, entry))
            elif isinstance(entry, Publish):
                yield self.publish(at_ms, ticket, entry)
            elif isinstance(entry, Ask):
                yield self.command(at_ms, ticket, entry)
            else:
                yield ticket, entry
        if settles:
            yield self.settlements(at_ms, settles)

    def publish(self, at_ms: int, ticket: int, entry: Publish) -> Record:
        """The record of a publish."""
        key = (entry.actor, entry.publication, entry.flags)
        header = self._publishes.get(key)
        if header is None:
            if len(self._publishes) >= _MAX_KNOWN:
                self._publishes.clear()
            header = self._publishes[key] = (LOG, encode(self._publish_header(*key)))
        stored = entry.stored
        properties, body, source = stored.properties, stored.body, entry.source
        headers: Headers = [header, (CONTENT, properties)]
        if source is not None:
            headers += _copied(source)
        size = len(body) + len(properties)
        return Record(_PUBLISH, at_ms, headers, body, size, ((ticket, entry),), source)

    def command(self, at_ms: int, ticket: int, entry: Ask) -> Record:
        """The record of a command."""
        actor = entry.actor
        header = LogHeader(FIRST_VERSION, self._epoch, LogKind.COMMAND, actor.user, actor.channel)
        value = encode_command(entry.command)
        headers: Headers = [(LOG, encode(header)), *_copied(entry.source)]
        entries = ((ticket, entry),)
        return Record(LogKind.COMMAND, at_ms, headers, value, len(value), entries, entry.source)

    def settlements(self, at_ms: int, entries: list[tuple[int, Settle]]) -> Record:
        """The record of settlements in a row."""
        value = encode(
            [
                Settlement(
                    entry.actor.user,
                    entry.actor.channel,
                    entry.tag,
                    entry.last,
                    entry.multiple,
                    entry.outcome,
                )
                for _ticket, entry in entries
            ]
        )
        headers = self._others[LogKind.SETTLE]
        return Record(LogKind.SETTLE, at_ms, headers, value, len(value), entries)

    def tick(self, at_ms: int, source: Source | None = None) -> Record:
        """The record that says how late it is, and maybe how far inputs were read."""
        headers = [*self._others[LogKind.TICK], *_copied(source)]
        return Record(LogKind.TICK, at_ms, headers, None, 0, source=source)

    def digest(self, at_ms: int, digest: Digest) -> Record:
        """The record of a digest."""
        value = encode(digest)
        return Record(LogKind.DIGEST, at_ms, self._others[LogKind.DIGEST], value, len(value))

    def _plain(self, kind: LogKind) -> Headers:
        return [(LOG, encode(LogHeader(FIRST_VERSION, self._epoch, kind)))]

    def _publish_header(self, actor: Actor, publication: Publication, flags: int) -> LogHeader:
        return LogHeader(
            FIRST_VERSION if publication.routed is None else ROUTED_VERSION,
            self._epoch,
            LogKind.PUBLISH,
            actor.user,
            actor.channel,
            publication.exchange,
            publication.routing_key,
            flags,
            publication.user_id,
            publication.routed,
        )


def _copied(source: Source | None) -> Headers:
    return [] if source is None else [(COPIED, msgspec.msgpack.encode(source))]


def epoch_record(at_ms: int, epoch: Epoch) -> Record:
    """The record with which a writer begins."""
    header = LogHeader(FIRST_VERSION, NO_EPOCH, LogKind.EPOCH)
    value = encode(epoch)
    return Record(LogKind.EPOCH, at_ms, [(LOG, encode(header))], value, len(value))
