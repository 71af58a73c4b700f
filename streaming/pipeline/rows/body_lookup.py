"""Where the table `messages` holds the bodies of messages in the state.

A message in the state holds the number of a data file, which packs the batch id, the partition of
the task and the index of the task's file, and its row in that file.
"""

from collections.abc import Sequence

import numpy as np

from streaming.broker.message import Message
from streaming.ledger.read.body_reader import Places
from streaming.ledger.write.data_file import DataFileName

_PARTITION_BITS, _INDEX_BITS = 16, 12


def body_file_number(batch_id: int, partition: int, index: int) -> int:
    """Return the number that stands for a data file of `messages` in the state."""
    assert partition < 1 << _PARTITION_BITS, f"partition {partition} has no number"
    assert index < 1 << _INDEX_BITS, f"file {index} of a task has no number"
    return (batch_id << (_PARTITION_BITS + _INDEX_BITS)) | (partition << _INDEX_BITS) | index


def body_places(messages: Sequence[Message], query_id: str) -> Places:
    """Return the places of messages, in the order given."""
    files: dict[int, int] = {}
    codes = [files.setdefault(message.body_file, len(files)) for message in messages]
    return Places(
        files=[_file_name(number, query_id) for number in files],
        file_codes=np.array(codes, np.int64),
        rows=np.array([message.body_row for message in messages], np.int64),
        topic_numbers=np.array([message.topic_number for message in messages], np.int64),
        partitions=np.array([message.partition for message in messages], np.int64),
        offsets=np.array([message.offset for message in messages], np.int64),
    )


def _file_name(number: int, query_id: str) -> str:
    batch_id = number >> (_PARTITION_BITS + _INDEX_BITS)
    partition = (number >> _INDEX_BITS) & ((1 << _PARTITION_BITS) - 1)
    index = number & ((1 << _INDEX_BITS) - 1)
    return str(DataFileName(query_id, batch_id, "messages", partition, index))
