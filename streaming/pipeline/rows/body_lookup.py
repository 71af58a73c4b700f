"""Where the message store has the bodies of messages that the state knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streaming.broker.message import Message
from streaming.ledger.read.body_reader import Places
from streaming.ledger.write.data_file import DataFileName
from streaming.pipeline.task.context import body_file_parts

MAX_BYTES = 64 * 1024 * 1024
"""Of bodies that are in memory together."""


MAX_TEXT_BYTES = 256 * 1024 * 1024
"""Of other values that are in memory together; a column of a file holds less than 2 GiB."""
MAX_HEADER_BYTES = 1024 * 1024 * 1024
"""Of what the headers of records that are in memory together may have at most."""


def runs_within(*weights: tuple[Sequence[int] | Any, int]) -> Iterator[tuple[int, int]]:
    """Cut rows into runs (start, end) that are within every bound, or of one row.

    Args:
        weights: what each row weighs, and the most that a run may weigh; several bounds at once.
    """
    sums = [(np.cumsum(np.array(sizes, np.int64)), most) for sizes, most in weights]
    rows, start = len(sums[0][0]), 0
    while start < rows:
        ends = [
            np.searchsorted(ends, (ends[start - 1] if start else 0) + most, side="right")
            for ends, most in sums
        ]
        end = max(start + 1, int(min(ends)))
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
