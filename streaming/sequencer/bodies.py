"""The messages of a sequenced vhost: the newest in memory, all others in the log.

    publish --> recent (bounded) --evicted--> nothing: the log has it
    delivery --> recent, else ahead (bounded) <--a run of records, on a thread-- the log

The broker core knows a message by its offset, which is also where Kafka has it. A message that is
not in memory costs nothing here. A backlog is delivered in the order of the log, so a fetch reads
on behind the message that was wanted, and the next fetch begins before its records are used up.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from streaming.amqp.publications import see_logged, stored_seen
from streaming.amqp.stored import Stored, StoredMessages
from streaming.broker.events import Events
from streaming.broker.message import Message, PublishedHeaders
from streaming.protocol.log_records import UnknownRecordError
from streaming.sequencer.log_reader import LogReader
from streaming.sequencer.needed_offsets import NeededOffsets
from topology.errors import DlxError

_RUN: Final = 2_000
_RUN_AT_ONCE: Final = 500
_RUN_BYTES: Final = 4 << 20
_FETCH_S: Final = 60.0
"""How long a fetch waits while Kafka does not answer."""

Fetched = list[tuple[int, Stored]]
Fetch = Callable[[int], "Future[Fetched]"]
"""Reads messages from an offset on, elsewhere; the first is that of the offset."""

_NONE: Final = -1
_OBJECTS: Final = 370
"""The objects of a message, and its place in the dictionary."""

_TABLE: Final = 70
_HEADER: Final = 120
"""A header with a name and a value of few bytes."""

_AHEAD_PART: Final = 4
"""Fetched messages may take this part of the memory for bodies; recent ones take the rest."""


class MessageGoneError(DlxError):
    """The log does not have a message that a fold needs."""

    help_code = "lost-records"


class Bodies(StoredMessages):
    """The messages of one vhost, by offset.

    Args:
        max_bytes: how much of them may stay in memory.
        fetch: reads others from the log.
        fetched: called, on the thread that fetched, when messages that were asked for are there.

    Attributes:
        recent_bytes: properties and bodies of those that were not fetched.
        max_bytes: how much of them may stay in memory.
        fetches: how often messages were read from the log.
        needed: from where on the log has what is in queues.
    """

    def __init__(self, max_bytes: int, fetch: Fetch, fetched: Callable[[], None]) -> None:
        super().__init__()
        self.recent_bytes = self.fetches = 0
        self.needed = NeededOffsets()
        self.max_bytes = max_bytes
        self._most_ahead = max_bytes // _AHEAD_PART
        self._most_recent = max_bytes - self._most_ahead
        self._fetch = fetch
        self._fetched = fetched
        # the oldest one leaves: for that, a dict would pass all that have left before it
        self._recent: OrderedDict[int, Stored] = OrderedDict()
        self._ahead: OrderedDict[int, Stored] = OrderedDict()
        self._ahead_bytes = 0
        self._next_ahead: tuple[int, int] | None = None  # when this one is used, fetch from there
        self._pending: Future[Fetched] | None = None
        self._wanted = _NONE  # the offset that the fetch is for; none if it only reads ahead

    def __len__(self) -> int:
        return len(self._recent) + len(self._ahead)

    @property
    def held_bytes(self) -> int:
        """Properties and bodies in memory."""
        return self.recent_bytes + self._ahead_bytes

    def add(self, stored: Stored, offset: int) -> Message:
        """Keep a message that was just published; return how the core knows it."""
        self._recent[offset] = stored
        stored.kept_bytes = size = _size(stored)
        self.recent_bytes += size
        while self.recent_bytes > self._most_recent and self._recent:
            _offset, oldest = self._recent.popitem(last=False)
            self.recent_bytes -= oldest.kept_bytes
        return Message(0, 0, offset, 0, 0, len(stored.body))

    def get(self, message: Message) -> Stored | None:
        """A message; None if it has to be fetched: ask again when `fetched` was called.

        Raises:
            MessageGoneError: the log does not have it any more.
        """
        offset = message.offset
        found = self._recent.get(offset)
        if found is not None:
            return found
        self._take_fetched()
        found = self._ahead.get(offset)
        if found is None:
            self._ask(offset)
        elif self._next_ahead is not None and offset >= self._next_ahead[0]:
            self._read_ahead(self._next_ahead[1])
        return found

    def of(self, message: Message) -> Stored:
        """A message; waits for Kafka if it is not in memory."""
        found = self.get(message)
        while found is None:
            assert self._pending is not None, "a message that is not in memory is asked for"
            self._pending.exception()  # waits
            found = self.get(message)
        return found

    def in_memory(self, message: Message) -> Stored | None:
        """The message; None if it is not in memory. Nothing is fetched."""
        return self._recent.get(message.offset) or self._ahead.get(message.offset)

    def published(self, message: Message) -> PublishedHeaders:
        """The headers of a message, for headers exchanges; waits as `of` does."""
        return PublishedHeaders(self.of(message).headers)

    def count(self, events: Events, published: list[int]) -> None:
        """Drop recent messages that are in no queue any more.

        Args:
            published: offsets of the messages that were published meanwhile.
        """
        moves = self.needed.count(events)
        in_memory = self._recent.get
        for offset in moves.entered:
            stored = in_memory(offset)
            if stored is not None:
                stored.copies += 1
        for offset in moves.left:
            stored = in_memory(offset)
            if stored is not None:
                stored.copies -= 1
        for offset in {*published}.difference(moves.entered).union(moves.left, moves.died):
            stored = in_memory(offset)
            if stored is not None and not stored.copies:
                del self._recent[offset]
                self.recent_bytes -= stored.kept_bytes

    # -- fetching

    def _ask(self, offset: int) -> None:
        if self._pending is None:
            self._wanted = offset
            self._begin(offset)
        # else `fetched` is called when that fetch is done, and this message is asked for again

    def _read_ahead(self, offset: int) -> None:
        oldest = next(iter(self._recent), None)
        if self._pending is None and oldest is not None and offset < oldest:
            self._wanted = _NONE
            self._begin(offset)

    def _begin(self, offset: int) -> None:
        self._next_ahead = None
        self.fetches += 1
        self._pending = self._fetch(offset)
        self._pending.add_done_callback(lambda _done: self._fetched())

    def _take_fetched(self) -> None:
        pending = self._pending
        if pending is None or not pending.done():
            return
        self._pending = None
        found = pending.result()
        if self._wanted != _NONE and not found:  # Kafka does not answer
            self._begin(self._wanted)
            return
        if self._wanted != _NONE and found[0][0] != self._wanted:
            raise MessageGoneError(
                f"the log has no message at offset {self._wanted}, which is in a queue: its record "
                "was deleted. Restore it, or purge the queue while nobody consumes from it"
            )
        if not found:
            return
        for offset, stored in found:
            if offset not in self._ahead:
                self._ahead[offset] = stored
                stored.kept_bytes = _size(stored)
                self._ahead_bytes += stored.kept_bytes
        while self._ahead_bytes > self._most_ahead and len(self._ahead) > len(found):
            _offset, oldest = self._ahead.popitem(last=False)
            self._ahead_bytes -= oldest.kept_bytes
        self._next_ahead = (found[len(found) // 2][0], found[-1][0] + 1)


def stored_from(properties: bytes | None, body: bytes) -> Stored:
    """A message as its record in the log has it.

    Raises:
        UnknownRecordError: it has none.
    """
    seen = see_logged(properties)
    return stored_seen(properties or b"", body, seen)


def _size(stored: Stored) -> int:
    """What a message takes in memory, about: small ones take more for objects than for bytes."""
    size = _OBJECTS + len(stored.body) + len(stored.properties)
    headers = stored.headers
    return size if headers is None else size + _TABLE + _HEADER * len(headers)


class BodyReader:
    """Fetches messages from one log on a thread of its own.

    Args:
        reader: of that log; used by nothing else.
    """

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")
        self._position = _NONE

    def fetch(self, offset: int) -> "Future[Fetched]":
        """See `Fetch`."""
        return self._thread.submit(self._read, offset)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
        self._reader.close()

    def _read(self, offset: int) -> Fetched:
        if offset != self._position:
            self._reader.seek(offset)
        found: Fetched = []
        size = 0
        deadline_s = time.monotonic() + _FETCH_S
        while size < _RUN_BYTES and len(found) < _RUN and time.monotonic() < deadline_s:
            records = self._reader.read(0.0 if found else 0.5, _RUN_AT_ONCE)
            if not records and found:
                break
            for record in records:
                self._position = record.offset + 1
                try:
                    stored = stored_from(record.content, record.value or b"")
                except UnknownRecordError:
                    continue  # it has no message, or another program wrote it
                found.append((record.offset, stored))
                size += _size(stored)
        return found
