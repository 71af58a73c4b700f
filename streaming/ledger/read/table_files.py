"""The files of a table at one version, their statistics, and a bounded cache of row groups."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.storage.port import Storage

Ints = np.ndarray[Any, np.dtype[np.int64]]

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

OPEN_FILES: Final = 64
IDLE_FILES: Final = 16
"""How many files stay open between two uses: the latest, which the next batch needs too."""


class ActiveFiles:
    """The files of a table at one version, as columns with one entry per file.

    Attributes:
        paths: relative to the table's root.
    """

    def __init__(self, table: DeltaTable) -> None:
        self._actions = pa.table(table.get_add_actions(flatten=True))
        self.paths: list[str] = self._actions["path"].to_pylist()
        self.sizes: Ints = self._ints("size_bytes", 0)
        self.rows: Ints = self._ints("num_records", 0)

    def __len__(self) -> int:
        return len(self.paths)

    def least(self, column: str) -> Ints:
        """The smallest value of an integer column in each file; the minimum int64 if unknown."""
        return self._ints(f"min.{column}", _LEAST)

    def greatest(self, column: str) -> Ints:
        """The largest value of an integer column in each file; the maximum int64 if unknown."""
        return self._ints(f"max.{column}", _GREATEST)

    def may_hold(self, column: str, value: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each file may hold a value in a text column."""
        if f"min.{column}" not in self._actions.column_names:
            return np.ones(len(self), np.bool_)
        inside = pc.and_(
            pc.less_equal(self._actions[f"min.{column}"], value),
            pc.greater_equal(self._actions[f"max.{column}"], value),
        )
        known: np.ndarray[Any, Any] = pc.fill_null(inside, fill_value=True).to_numpy()
        return known

    def _ints(self, name: str, unknown: int) -> Ints:
        if name not in self._actions.column_names:
            return np.full(len(self.paths), unknown, np.int64)
        column = pc.fill_null(self._actions[name].cast(pa.int64()), unknown)
        values: Ints = column.to_numpy()
        return values


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

    def forget(self) -> None:
        """Release the row groups and all but a few files."""
        self._groups.clear()
        self.held_bytes = 0
        while len(self._files) > IDLE_FILES:
            self._files.popitem(last=False)[1].close()

    def close(self) -> None:
        """Release all files and memory."""
        for opened in self._files.values():
            opened.close()
        self._files.clear()
        self.forget()
