"""Bounds of the rows that a task holds in memory, and of its data files.

Without them, a task would hold a whole batch in memory. Also, a column of a file holds less than 2
GiB. Rows are therefore processed in chunks, and a file is written once it is large enough.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.data_file import DataFile, DataFileName, write_data_file
from streaming.pipeline.task import BatchContext, TaskSettings

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A file is written once its rows have this many bytes."""

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


class RollingFiles:
    """Collects the rows of one task for one table; `index` and `rows` describe the current file."""

    def __init__(self, spec: TableSpec, settings: TaskSettings, context: BatchContext) -> None:
        self._spec = spec
        self._settings = settings
        self._context = context
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._files: list[DataFile] = []
        self.index = 0
        self.rows = 0

    def add(self, table: pa.Table, size: int) -> None:
        """Add rows; `size` is the number of bytes of their records."""
        self._tables.append(table)
        self.rows += table.num_rows
        self._bytes += size
        if self._bytes >= MAX_FILE_BYTES:
            self._write()

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files."""
        if self._tables:
            self._write()
        return self._files

    def _write(self) -> None:
        context = self._context
        name = DataFileName(
            context.query_id, context.batch_id, self._spec.name, context.partition, self.index
        )
        table = self._tables[0]
        if len(self._tables) > 1:
            table = pa.concat_tables(self._tables).unify_dictionaries()
        storage = self._settings.tables.below(self._spec.name).storage()
        file = write_data_file(storage, self._spec, name, table)
        if file is not None:
            self._files.append(file)
        self.index += 1
        self._tables, self.rows, self._bytes = [], 0, 0
