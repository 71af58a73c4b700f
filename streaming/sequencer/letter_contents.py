"""Contents of letters that are in no queue any more: the front writes them into the log again.

    Redrive(letters) --read by offset--> versions into the log --> Redrive into the log

Nothing keeps the message of such a letter: its row may be removed or erased, and the log trimmed.
So the letter gets a new message, which the log has before the redrive that needs it, and every fold
finds it there. What the log has no more is said in the redrive.
"""

import time
from typing import Final

from msgspec.structs import replace

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.stored import Stored
from streaming.broker.commands import Redrive
from streaming.broker.events import COPIED_CHANNEL, Actor
from streaming.broker.redrive_letters import NOT_IN_LOG, Letter
from streaming.broker.redrives.version_keys import VERSION_KEY, name_of_content
from streaming.protocol.log_records import UnknownRecordError
from streaming.sequencer.bodies import stored_from
from streaming.sequencer.input_records import published_at
from streaming.sequencer.log_reader import LogReader, LogUnreadableError
from streaming.sequencer.log_vhost import LogVhost

_FRONT: Final = Actor(None, COPIED_CHANNEL)
_ANSWER_S: Final = 10.0
_POLL_S: Final = 0.5


class LetterContents:
    """Reads messages of one log by their offsets. Use it on one thread at a time."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    def read(self, offset: int) -> Stored | None:
        """A message; None if the log has none there.

        Raises:
            LogUnreadableError: Kafka does not answer.
        """
        self._reader.seek(offset)
        deadline_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline_s:
            try:
                found = self._reader.read(_POLL_S, 1)
            except LogUnreadableError:
                return None  # it was trimmed
            if found:
                [record] = found
                if record.offset != offset:
                    return None
                try:
                    return stored_from(record.content, record.value or b"")
                except UnknownRecordError:
                    return None
        raise LogUnreadableError(f"the log {self._reader.topic} cannot be read: no answer")

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()


def offsets_needed(vhost: LogVhost, redrive: Redrive) -> list[int]:
    """The messages whose contents a redrive needs again; none if it changes nothing."""
    if vhost.shard.state.redrives.has_letters(redrive.id, redrive.first):
        return []
    found = [each.stored.message[2] for each in redrive.letters if _is_needed(each) and each.stored]
    return sorted(set(found))


def version_of_content(offset: int, stored: Stored) -> Publish:
    """What has a content in the log again."""
    key = VERSION_KEY + name_of_content(offset)
    return published_at(_FRONT, key, stored.properties, stored.body)


def without(entry: Ask, redrive: Redrive, missing: set[int]) -> Ask:
    """A redrive that says which contents the log has no more."""
    if not missing:
        return entry
    letters = tuple(
        replace(each, stored=replace(each.stored, size=NOT_IN_LOG))
        if _is_needed(each) and each.stored and each.stored.message[2] in missing
        else each
        for each in redrive.letters
    )
    return Ask(entry.actor, replace(redrive, letters=letters), entry.source)


def _is_needed(letter: Letter) -> bool:
    return letter.stored is not None and letter.edit is None
