"""Rows of `messages`: every publish as it arrived, with its body; and where each is (D6)."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.message import CONFIRM, IMMEDIATE, MANDATORY, Message, Publication
from streaming.ledger.read.body_reader import Places
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.data_file import DataFile, DataFileName
from streaming.pipeline.rows.amqp_columns import instants
from streaming.pipeline.rows.bounds import RollingFiles
from streaming.pipeline.task import BatchContext, TaskSettings, TopicTask

_SPEC = TABLES["messages"]

PROPERTIES: Final = "amqp_properties"
HEADERS: Final = "amqp_headers"
"""Columns of publishes with what becomes `properties` and `headers`."""

NAMES_BYTES = 64
"""Estimated bytes of a row's names and properties."""

_PARTITION_BITS, _INDEX_BITS = 16, 12
FILE_BITS = (_PARTITION_BITS, _INDEX_BITS)


class Publish(NamedTuple):
    """What publishes that are alike have in common: what the broker sees of them."""

    vhost: str
    publication: Publication
    flags: int
    channel: str


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
        """Add publishes, with the columns PROPERTIES and HEADERS too; return their places.

        Args:
            codes: indexes into `distinct`.

        Returns:
            File number and row of each.
        """
        count = rows.num_rows
        context, index = self._context, self._files.index
        files = np.full(count, body_file_number(context.batch_id, context.partition, index))
        places = np.arange(self._files.rows, self._files.rows + count, dtype=np.int32)
        vhosts, publications, flags, channels = zip(*distinct, strict=True)
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
            "user": Constant(topic.user),
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
        size = int(sizes.sum()) + NAMES_BYTES * count
        size += pc.sum(pc.binary_length(rows[HEADERS])).as_py() or 0
        size += rows["key"].nbytes + rows["foreign"].nbytes
        self._files.add(build_table(_SPEC.schema, columns, count), size)
        return files, places

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files."""
        return self._files.close()


def body_file_number(batch_id: int, partition: int, index: int) -> int:
    """Return the number that stands for a data file of `messages` in the state.

    It packs the batch id, the partition of the task and the index of the task's file. A message in
    the state holds it, and its row in that file.
    """
    assert partition < 1 << _PARTITION_BITS, f"partition {partition} has no number"
    assert index < 1 << _INDEX_BITS, f"file {index} of a task has no number"
    return (batch_id << (_PARTITION_BITS + _INDEX_BITS)) | (partition << _INDEX_BITS) | index


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
    files, codes = np.unique(_column(messages, "body_file"), return_inverse=True)
    return Places(
        files=[file_name(number, query_id) for number in files.tolist()],
        file_codes=codes,
        rows=_column(messages, "body_row"),
        topic_numbers=topic_numbers,
        partitions=partitions,
        offsets=offsets,
    )


def _column(messages: Sequence[Message], name: str) -> Any:
    return np.fromiter(map(attrgetter(name), messages), np.int64, len(messages))


def file_name(number: int, query_id: str) -> str:
    """Return the name of the data file that `body_file_number` stands for; below 0: no file's."""
    if number < 0:
        return "unknown"  # no file has this name, so the message is found by its key
    batch_id = number >> (_PARTITION_BITS + _INDEX_BITS)
    partition = (number >> _INDEX_BITS) & ((1 << _PARTITION_BITS) - 1)
    index = number & ((1 << _INDEX_BITS) - 1)
    return str(DataFileName(query_id, batch_id, "messages", partition, index))
