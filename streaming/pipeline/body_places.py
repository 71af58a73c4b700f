"""Where the message store has the bodies of messages that the state knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streaming.broker.message import Message
from streaming.ledger.bodies import Places
from streaming.ledger.files import DataFileName
from streaming.pipeline.tasks import body_file_parts

MAX_BYTES = 64 * 1024 * 1024
"""Of bodies that are in memory together."""


def runs_of_bytes(sizes: Sequence[int], most: int = MAX_BYTES) -> Iterator[tuple[int, int]]:
    """Cut messages of these sizes into runs (start, end) of at most so many bytes, or of one."""
    ends = np.cumsum(np.array(sizes, np.int64))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, end
        start = end


def places_of(messages: Sequence[Message], query_id: str) -> Places:
    """The places of messages, in the order given."""
    files: dict[int, int] = {}
    codes = [files.setdefault(message.body_file, len(files)) for message in messages]
    return Places(
        files=[_path(number, query_id) for number in files],
        file_codes=np.array(codes, np.int64),
        rows=np.array([message.body_row for message in messages], np.int64),
        topic_numbers=np.array([message.topic_number for message in messages], np.int64),
        partitions=np.array([message.partition for message in messages], np.int64),
        offsets=np.array([message.offset for message in messages], np.int64),
    )


def _path(number: int, query_id: str) -> str:
    batch_id, partition, index = body_file_parts(number)
    return str(DataFileName(query_id, batch_id, "messages", partition, index))
