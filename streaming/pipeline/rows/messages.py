"""Rows of `messages`: every publish as it arrived, with its body; and where each is (D6)."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.message import CONFIRM, IMMEDIATE, MANDATORY, NO_FILE, Message, Publication
from streaming.ledger.read.body_reader import Places
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.data_file import DataFile, DataFileName, source_of_partition
from streaming.pipeline.rows.amqp_columns import instants
from streaming.pipeline.rows.bounds import HEADER_BYTES, MAX_FILE_OFFSETS, RollingFiles
from streaming.pipeline.task import BatchContext, TaskSettings, TopicTask

_SPEC = TABLES["messages"]

PROPERTIES: Final = "amqp_properties"
HEADERS: Final = "amqp_headers"
"""Columns of publishes with what becomes `properties` and `headers`."""

UNKNOWN: Final = "unknown"
"""No file has this name: a message that is said to be there is found by its key."""

NAMES_BYTES = 64
"""Estimated bytes of a row's names and properties."""

_NEWEST: Final = NO_FILE - 1
_GAP_BITS: Final = MAX_FILE_OFFSETS.bit_length() - 1


class Publish(NamedTuple):
    """What publishes that are alike have in common: what the broker sees of them.

    `user` is the user of each record of a log; None: that of the topic.
    """

    vhost: str
    publication: Publication
    flags: int
    channel: str
    user: str | None = None


class MessageRows:
    """Collects and writes the publishes of one task."""

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._context = context
        self._files = RollingFiles(_SPEC, settings, context)

    def add(
        self,
        rows: pa.RecordBatch,
        topic_name: str,
        topic: TopicTask,
        distinct: Sequence[Publish],
        codes: Any,
        lanes: Any,
        sizes: Any,
    ) -> tuple[Any, Any]:
        """Add publishes of one Kafka partition, with the columns PROPERTIES and HEADERS too.

        Args:
            codes: indexes into `distinct`.

        Returns:
            `body_file_number` and row of each.
        """
        count = rows.num_rows
        context = self._context
        vhosts, publications, flags, channels, users = zip(*distinct, strict=True)
        columns: dict[str, Any] = {
            "query_id": Constant(context.query_id),
            "batch_id": Constant(context.batch_id),
            "vhost": Coded(codes, vhosts),
            "lane": lanes,
            "topic_number": np.full(count, topic.number, np.int32),
            "partition": rows["partition"],
            "offset": rows["offset"],
            "origin.topic": Constant(topic_name),
            "origin.topic_number": np.full(count, topic.number, np.int32),
            "origin.partition": rows["partition"],
            "origin.offset": rows["offset"],
            "origin.timestamp": instants(rows["at_ms"]),
            "record_key": rows["key"],
            "user": Coded(codes, users) if topic.log_of else Constant(topic.user),
            "channel": Coded(codes, channels),
            "exchange": Coded(codes, [one.exchange for one in publications]),
            "routing_key": Coded(codes, [one.routing_key for one in publications]),
            "properties": rows[PROPERTIES],
            "headers": rows[HEADERS],
            "body_bytes": sizes,
            "body": rows["value"],
        }
        for name, flag in (
            ("mandatory", MANDATORY),
            ("immediate", IMMEDIATE),
            ("confirm", CONFIRM),
        ):
            columns[name] = (np.array(flags) & flag != 0)[codes]
        if rows["foreign"].null_count < count:
            columns["kafka_headers"] = rows["foreign"]
        offsets = rows["offset"].to_numpy()
        keys = pc.fill_null(pc.binary_length(rows["key"]), 0).to_numpy()
        bytes_each = sizes + keys + rows[HEADER_BYTES].to_numpy() + NAMES_BYTES
        table = build_table(_SPEC.schema, columns, count)
        partition = rows["partition"][0].as_py()
        firsts, places = self._files.add(topic.number, partition, table, offsets, bytes_each)
        return body_file_number(context.batch_id, offsets - firsts - places), places

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files."""
        return self._files.close()


class BodyFile(NamedTuple):
    """A data file of `messages`, known by the records that it has."""

    batch_id: int
    topic_number: int
    partition: int
    first: int

    def name(self, query_id: str) -> str:
        """Return its name."""
        source = source_of_partition(self.topic_number, self.partition)
        return str(DataFileName(query_id, self.batch_id, _SPEC.name, source, self.first))


def body_file_number(batch_id: int, gaps: Any) -> Any:
    """Return the numbers that stand for data files of `messages` in the state.

    A number packs the batch and a gap. Together with the offset of the message and its row in the
    file, which the state has too, the gap gives the first offset of the file:

        first = offset - row - gap

    So a number follows from the records alone (D18), and is the same for messages in a row. Numbers
    are below NO_FILE; no file has a number from 0 on.

    Args:
        gaps: for each message, the offsets since the first of its file that are in no row there.
    """
    return _NEWEST - ((batch_id << _GAP_BITS) | gaps)


def body_file(message: Message) -> BodyFile | None:
    """Return the file that a message was written to; None if the state does not know it."""
    number = _NEWEST - message.body_file
    if number < 0:
        return None
    first = message.offset - message.body_row - (number & (MAX_FILE_OFFSETS - 1))
    return BodyFile(number >> _GAP_BITS, message.topic_number, message.partition, first)


def body_places(
    messages: Sequence[Message], query_id: str, ids: tuple[Any, Any, Any] | None = None
) -> Places:
    """Return the places of messages, in the order given.

    Args:
        ids: topic numbers, partitions and offsets of the messages, if they are known as columns.
    """
    topic_numbers, partitions, offsets = ids or (
        _column(messages, name) for name in ("topic_number", "partition", "offset")
    )
    rows = _column(messages, "body_row")
    numbers = _NEWEST - _column(messages, "body_file")
    firsts = offsets - rows - (numbers & (MAX_FILE_OFFSETS - 1))
    files = np.stack((numbers >> _GAP_BITS, topic_numbers, partitions, firsts))
    files[:, numbers < 0] = NO_FILE
    order = np.lexsort(files)
    is_new = (np.diff(files[:, order], prepend=NO_FILE - 1) != 0).any(axis=0)
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(is_new) - 1
    distinct = files[:, order[is_new]].T.tolist()
    return Places(
        files=[UNKNOWN if one[0] < 0 else BodyFile(*one).name(query_id) for one in distinct],
        file_codes=codes,
        rows=rows,
        topic_numbers=topic_numbers,
        partitions=partitions,
        offsets=offsets,
    )


def _column(messages: Sequence[Message], name: str) -> Any:
    return np.fromiter(map(attrgetter(name), messages), np.int64, len(messages))
