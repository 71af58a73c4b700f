"""A bounded cache of open Parquet files and their decoded row groups."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.ledger.storage import Storage

Ints = np.ndarray[Any, np.dtype[np.int64]]

OPEN_FILES: Final = 64


class OpenFile:
    """One open Parquet file.

    Attributes:
        starts: number of the first row of each row group, followed by the number of all rows.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._file = storage.open(path)
        self.parquet = pq.ParquetFile(self._file)
        footer = self.parquet.metadata
        counts = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
        self.starts: Ints = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._leaves = {footer.schema.column(i).path: i for i in range(footer.num_columns)}

    def may_hold(self, group: int, column: str, least: int, greatest: int) -> bool:
        """Whether a row group may have a value from `least` to `greatest` in an integer column."""
        statistics = self.parquet.metadata.row_group(group).column(self._leaves[column]).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return bool(statistics.min <= greatest and statistics.max >= least)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class RowGroups:
    """Row groups of a table's files; the most recently used stay in memory.

    Args:
        cache_bytes: memory limit for decoded row groups; the one in use may exceed it.
    """

    def __init__(self, storage: Storage, columns: Sequence[str], cache_bytes: int) -> None:
        self._storage = storage
        self._columns = list(columns)
        self._cache_bytes = cache_bytes
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self.held_bytes = 0

    def file(self, path: str) -> OpenFile | None:
        """An open file; None if it does not exist."""
        opened = self._files.get(path)
        if opened is None:
            try:
                opened = OpenFile(self._storage, path)
            except FileNotFoundError:
                return None
            self._files[path] = opened
            if len(self._files) > OPEN_FILES:
                self._files.popitem(last=False)[1].close()
        else:
            self._files.move_to_end(path)
        return opened

    def read(self, path: str, group: int) -> pa.Table:
        """A row group of a file that `file` has just returned."""
        key = (path, group)
        table = self._groups.get(key)
        if table is not None:
            self._groups.move_to_end(key)
            return table
        table = self._files[path].parquet.read_row_group(
            group, columns=self._columns, use_threads=False
        )
        self._groups[key] = table
        self.held_bytes += table.nbytes
        while self.held_bytes > self._cache_bytes and len(self._groups) > 1:
            self.held_bytes -= self._groups.popitem(last=False)[1].nbytes
        return table

    def close(self) -> None:
        """Release all files and memory."""
        for opened in self._files.values():
            opened.close()
        self._files.clear()
        self._groups.clear()
        self.held_bytes = 0
