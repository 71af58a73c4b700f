"""The files of a table at one version, with the statistics by which files are skipped."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

Ints = np.ndarray[Any, np.dtype[np.int64]]

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


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
