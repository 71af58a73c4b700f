"""What rows and records take from `messages`: the body, properties and headers as published (D12).

Tasks of one worker process share a reader, so a row is read once for all that need it in a batch,
and the footers of files stay known.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from streaming.broker.message import NO_FILE, Message, PublishedHeaders
from streaming.ledger.errors import BodyMissingError
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.write.data_file import LOOKUP_STAGE, DataFileName
from streaming.pipeline.rows.looked_up import LookedUp, looked_up
from streaming.pipeline.rows.messages import BodyFile, body_file, body_places
from streaming.protocol.record_headers import kafka_headers_table
from streaming.storage.location import Location
from topology.values import table_from_json

STORED: Final = ("body", "properties", "headers", "kafka_headers", "origin")
"""The columns of `messages` that dead letters, deliveries and returns need."""

_HEADERS: Final = ("headers", "kafka_headers")
_LETTER: Final = (*_HEADERS, "body")
_PORT_BYTES: Final = 32 * 1024 * 1024

_readers: dict[tuple[Any, ...], BodyReader] = {}  # of this worker process


@contextmanager
def stored_rows(root: Location, columns: tuple[str, ...] = STORED) -> Iterator[BodyReader]:
    """Lend this worker's reader of `messages`.

    What it has read is released at the end. After an error, the next batch gets a new reader.
    """
    key = (root.url, tuple(sorted(root.options.items())), columns)
    reader = _readers.pop(key, None) or BodyReader(root, columns)
    try:
        yield reader
    except BaseException:
        reader.close()
        raise
    reader.forget()
    _readers[key] = reader


class _Group(NamedTuple):
    """Part of a row group: keys as arrays, and the columns _HEADERS."""

    topic_numbers: Any
    partitions: Any
    offsets: Any
    headers: pa.Array
    kafka_headers: pa.Array
    bytes: int


class PublishedRows:
    """Reads the published headers of messages: a `PublishedPort`.

    Row groups stay in memory up to a limit, so that a headers exchange does not read a file for
    each message.

    A letter that is published again, or its new version, was in no queue, so it may have been
    erased. It is looked up in the files of one version of the table, the same whenever the batch
    runs: see `looked_up`.

    Args:
        reader: of the columns `headers` and `kafka_headers`.
        letters: of `_LETTER`, with nothing read yet.
        look: returns that version.

    Attributes:
        found_in: the version that letters were looked up in; None: none was.
    """

    def __init__(
        self,
        reader: BodyReader,
        letters: BodyReader,
        query_id: str,
        look: Callable[[], LookedUp],
    ) -> None:
        self._reader = reader
        self._letters = letters
        self._query_id = query_id
        self._look = look
        self.found_in: LookedUp | None = None
        self._starts: dict[BodyFile, list[int]] = {}
        self._groups: OrderedDict[tuple[BodyFile, int], _Group] = OrderedDict()
        self._bytes = 0

    def __call__(self, message: Message) -> PublishedHeaders:
        """Return the published headers of a message.

        Raises:
            LookupError: `messages` does not have it, or no longer has its data.
        """
        if message.body_file == NO_FILE:
            if self.found_in is None:
                self.found_in = self._look()
                self._letters.look_in(self.found_in.files, only=True)
            row = self._search(self._letters, message)
            return _published(row["headers"], row["kafka_headers"])
        group, index = self._row(message)
        if group is not None:
            return _published(group.headers[index].as_py(), group.kafka_headers[index].as_py())
        row = self._search(self._reader, message)  # it was compacted, or is not there
        return _published(row["headers"], row["kafka_headers"])

    def _search(self, reader: BodyReader, message: Message) -> dict[str, Any]:
        try:
            [row] = reader.read(body_places([message], self._query_id)).to_pylist()
        except BodyMissingError as error:
            raise LookupError(str(error)) from error
        found: dict[str, Any] = row
        return found

    def _row(self, message: Message) -> tuple[_Group | None, int]:
        """Return the row group of a message, and its row there; None if it is elsewhere."""
        file, row = body_file(message), message.body_row
        if file is None:
            return None, 0
        starts = self._starts.get(file)
        if starts is None:
            starts = self._starts[file] = self._reader.group_starts(file.name(self._query_id))
        if not starts or not 0 <= row < starts[-1]:
            return None, 0
        number = bisect_right(starts, row) - 1
        group = self._groups.get((file, number)) or self._read(file, number)
        if group is None:  # compacted and removed since its footer was read
            return None, 0
        index = row - starts[number]
        found = (group.topic_numbers[index], group.partitions[index], group.offsets[index])
        if found != (message.topic_number, message.partition, message.offset):
            return None, 0
        return group, index

    def _read(self, file: BodyFile, number: int) -> _Group | None:
        table = self._reader.group(file.name(self._query_id), number)
        if table is None:
            return None
        group = _Group(
            table["topic_number"].to_numpy(),
            table["partition"].to_numpy(),
            table["offset"].to_numpy(),
            table["headers"].combine_chunks(),
            table["kafka_headers"].combine_chunks(),
            table.nbytes,
        )
        self._groups[file, number] = group
        self._bytes += group.bytes
        while self._bytes > _PORT_BYTES and len(self._groups) > 1:
            self._bytes -= self._groups.popitem(last=False)[1].bytes
        return group


@contextmanager
def published_rows(
    root: Location, query_id: str, batch_id: int, source: str
) -> Iterator[PublishedRows]:
    """Lend a port for the headers of messages to one batch of a shard, its `source`."""
    look = partial(looked_up, root, DataFileName(query_id, batch_id, LOOKUP_STAGE, source))
    with stored_rows(root, _HEADERS) as reader, closing(BodyReader(root, _LETTER)) as letters:
        yield PublishedRows(reader, letters, query_id, look)


def published_table(text: str | bytes | None) -> dict[str, Any] | None:
    """Return the column `headers` as an AMQP table."""
    return None if text is None else table_from_json(msgspec.json.decode(text))


def _published(headers: str | None, foreign: list[dict[str, Any]] | None) -> PublishedHeaders:
    pairs = [(one["key"], one["value"]) for one in foreign or ()]
    return PublishedHeaders(published_table(headers), kafka_headers_table(pairs) if pairs else None)
