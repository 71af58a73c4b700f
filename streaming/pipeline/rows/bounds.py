"""Bounds of the rows that a task holds in memory, and of its data files.

Without them, a task would hold a whole batch in memory. Also, a column of a file holds less than 2
GiB. Rows are therefore processed in chunks, and a file is written once it is large enough.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.data_file import (
    DataFile,
    DataFileName,
    source_of_partition,
    write_data_file,
)
from streaming.pipeline.task import BatchContext, TaskSettings
from streaming.storage.port import Storage

HEADER_BYTES = "header_bytes"
"""Column of the bytes that each record's headers have."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A file ends with the record with which its records have this many bytes."""

MAX_FILE_OFFSETS = 1 << 28
"""A file ends before an offset this far from its first: `messages.body_file_number`."""

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The most bytes of bodies in memory at once."""

MAX_TEXT_BYTES = 256 * 1024 * 1024
"""The most bytes of other values in memory at once."""

MAX_HEADER_BYTES = 1024 * 1024 * 1024
"""The most bytes that the headers of records in memory may have at once, at worst."""


def chunks(*weights: tuple[Sequence[int] | Any, int]) -> Iterator[tuple[int, int]]:
    """Cut rows into chunks (start, end); each is within every bound, or is a single row.

    Args:
        weights: for each bound, the weight of every row, and the most that a chunk may weigh.
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


class _PartitionFiles:
    """The rows of one Kafka partition for one table; `_first` is the first offset of a file."""

    def __init__(self, spec: TableSpec, storage: Storage, name: DataFileName) -> None:
        self._spec = spec
        self._storage = storage
        self._name = name
        self._tables: list[pa.Table] = []
        self._first = self._rows = self._bytes = 0
        self.files: list[DataFile] = []

    def add(self, table: pa.Table, offsets: Any, sizes: Any) -> tuple[Any, Any]:
        count, start = table.num_rows, 0
        firsts, rows = np.empty(count, np.int64), np.empty(count, np.int32)
        sums = np.cumsum(sizes, dtype=np.int64)
        while start < count:
            if not self._rows:
                self._first = int(offsets[start])
            before = int(sums[start - 1]) if start else 0
            end = int(np.searchsorted(sums, before + MAX_FILE_BYTES - self._bytes)) + 1
            end = min(end, int(np.searchsorted(offsets, self._first + MAX_FILE_OFFSETS)), count)
            if end > start:
                self._tables.append(table.slice(start, end - start))
                firsts[start:end] = self._first
                rows[start:end] = np.arange(self._rows, self._rows + end - start)
                self._rows += end - start
                self._bytes += int(sums[end - 1]) - before
            if end < count or self._bytes >= MAX_FILE_BYTES:
                self.write()
            start = end
        return firsts, rows

    def write(self) -> None:
        if not self._tables:
            return
        table = self._tables[0]
        if len(self._tables) > 1:
            table = pa.concat_tables(self._tables).unify_dictionaries()
        name = msgspec.structs.replace(self._name, first=self._first)
        file = write_data_file(self._storage, self._spec, name, table)
        if file is not None:
            self.files.append(file)
        self._tables, self._rows, self._bytes = [], 0, 0


class RollingFiles:
    """Collects the records of one task for one table, in files of one Kafka partition each.

    Names and ends of the files follow from the records alone (D18): a file ends with the record
    that fills it, however Spark passes the records to its tasks.
    """

    def __init__(self, spec: TableSpec, settings: TaskSettings, context: BatchContext) -> None:
        self._spec = spec
        self._storage = (settings.tables / spec.name).storage()
        self._context = context
        self._partitions: dict[tuple[int, int], _PartitionFiles] = {}

    def add(
        self, topic_number: int, partition: int, table: pa.Table, offsets: Any, sizes: Any
    ) -> tuple[Any, Any]:
        """Add rows of a Kafka partition, whose records follow those that it has.

        Args:
            offsets: ascending.
            sizes: bytes of each record.

        Returns:
            For each row, the first offset of its file, and its row there.
        """
        context, key = self._context, (topic_number, partition)
        found = self._partitions.get(key)
        if found is None:
            name = DataFileName(
                context.query_id, context.batch_id, self._spec.name, source_of_partition(*key)
            )
            found = self._partitions[key] = _PartitionFiles(self._spec, self._storage, name)
        return found.add(table, offsets, sizes)

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files."""
        files: list[DataFile] = []
        for _key, found in sorted(self._partitions.items()):
            found.write()
            files += found.files
        return files
