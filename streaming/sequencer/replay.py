"""Folds the records of a log as Kafka has them: at a start, in a standby, behind another writer.

The records of a leading front reach the same fold as objects instead (`led_vhost.py`). What a
record does is decided by `LogFold` in both cases.
"""

from typing import Final

from streaming.amqp.errors import AmqpError
from streaming.amqp.properties import Seen, names_keys, publication_seen, see
from streaming.amqp.stored import Stored
from streaming.broker.events import Actor
from streaming.broker.message import Message, Publication
from streaming.broker.sequence.fold import LogFold
from streaming.protocol.copied_records import read_source
from streaming.protocol.log_folding import fold_record
from streaming.protocol.log_records import (
    CONTENT,
    READERS,
    LogHeader,
    LogKind,
    UnknownRecordError,
    read_header,
)
from streaming.sequencer.bodies import Bodies
from streaming.sequencer.copied_positions import CopiedPositions
from streaming.sequencer.log_reader import RawRecord

_MAX_KNOWN: Final = 20_000


class Replay:
    """Folds the records of one log.

    Args:
        bodies: takes the messages.
        positions: takes where records were copied from.
    """

    def __init__(self, bodies: Bodies, positions: CopiedPositions) -> None:
        self._bodies = bodies
        self._positions = positions
        self._actors: dict[tuple[str | None, str], Actor] = {}
        self._publications: dict[tuple[str | int | None, ...], Publication] = {}
        self._published: list[int] = []

    def take(self, fold: LogFold, record: RawRecord) -> LogHeader:
        """Fold the next record.

        Raises:
            UnknownRecordError: it cannot be read, and changes nothing.
            NewerLogError, OtherTermsError: this program must not fold it.
            FoldsDifferError: another fold of this log came to something else.
        """
        header = read_header(record.header)
        if header.kind == LogKind.PUBLISH:
            self._publish(fold, record, header)
            self._note_source(fold, record, header)
            return header
        read = READERS.get(LogKind(header.kind))
        if read is not None:
            read(record.value or b"")
        fold_record(
            fold,
            (record.offset, record.at_ms),
            header.kind,
            header.epoch,
            record.value or b"",
            self._actor(header.user, header.channel),
            self._actor,
        )
        self._note_source(fold, record, header)
        return header

    def _note_source(self, fold: LogFold, record: RawRecord, header: LogHeader) -> None:
        """Note where a record that counts was copied from."""
        if record.copied is None or header.epoch != fold.epoch:
            return
        source = read_source(record.copied)
        if source is not None:
            self._positions.note(source)

    def take_published(self) -> list[int]:
        """Remove and return the offsets of the messages since the last call."""
        taken, self._published = self._published, []
        return taken

    def _publish(self, fold: LogFold, record: RawRecord, header: LogHeader) -> None:
        content = record.content
        if content is None or record.value is None:
            raise UnknownRecordError(f"a publish has no value, or no header {CONTENT}")
        try:
            seen = see(content)
        except (AmqpError, IndexError) as error:
            raise UnknownRecordError(f"the properties cannot be read: {error}") from error
        actor = self._actor(header.user, header.channel)
        if not fold.begin(record.offset, header.epoch):
            message = Message(0, 0, record.offset, 0, 0, len(record.value))
            fold.void(record.at_ms, message, actor)
            return
        stored = Stored(content, record.value, seen.headers, seen.expiration)
        message = self._bodies.add(stored, record.offset)
        self._published.append(record.offset)
        fold.publish(record.at_ms, message, self._publication(header, seen), header.flags, actor)

    def _actor(self, user: str | None, channel: str) -> Actor:
        key = (user, channel)
        found = self._actors.get(key)
        if found is None:
            if len(self._actors) >= _MAX_KNOWN:
                self._actors.clear()
            found = self._actors[key] = Actor(user, channel)
        return found

    def _publication(self, header: LogHeader, seen: Seen) -> Publication:
        if names_keys(seen.headers):
            return publication_seen(header.exchange, header.routing_key, seen, header.user_id)
        key = (
            header.exchange,
            header.routing_key,
            seen.expiration,
            seen.priority,
            header.user_id,
        )
        found = self._publications.get(key)
        if found is None:
            if len(self._publications) >= _MAX_KNOWN:
                self._publications.clear()
            found = self._publications[key] = publication_seen(
                header.exchange, header.routing_key, seen, header.user_id
            )
        return found
