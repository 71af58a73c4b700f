"""Folds the records of a log as Kafka has them: at a start, in a standby, behind another writer.

The records of a leading front reach the same fold as objects instead (`log_vhost.py`). What a
record does is decided by `LogFold` in both cases.
"""

from typing import Final

from streaming.amqp.publications import Publications, see_logged, stored_seen
from streaming.broker.events import Actor
from streaming.broker.message import Message
from streaming.broker.sequence.log_fold import LogFold
from streaming.protocol.copied_records import read_source
from streaming.protocol.log_record_effects import fold_record
from streaming.protocol.log_records import (
    LogHeader,
    LogKind,
    UnknownRecordError,
    check_value,
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
        self._publications = Publications()
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
        check_value(header.kind, record.value or b"")
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
        content, body, seen = record.content or b"", record.value, see_logged(record.content)
        if body is None:
            raise UnknownRecordError("a publish has no value")
        actor = self._actor(header.user, header.channel)
        if not fold.begin(record.offset, header.epoch):
            message = Message(0, 0, record.offset, 0, 0, len(body))
            fold.void(message, actor)
            return
        message = self._bodies.add(stored_seen(content, body, seen), record.offset)
        self._published.append(record.offset)
        publication = self._publications.of(
            header.exchange, header.routing_key, seen, header.user_id, header.routed
        )
        fold.publish(record.at_ms, message, publication, header.flags, actor)

    def _actor(self, user: str | None, channel: str) -> Actor:
        key = (user, channel)
        found = self._actors.get(key)
        if found is None:
            if len(self._actors) >= _MAX_KNOWN:
                self._actors.clear()
            found = self._actors[key] = Actor(user, channel)
        return found
