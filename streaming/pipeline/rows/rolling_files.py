"""The files of one task for one table: rows are collected, and written whenever they weigh enough.

A task of a large batch would otherwise hold all of it in memory, and a column of a file holds
less than 2 GiB.
"""

from __future__ import annotations

import pyarrow as pa

from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.write.data_file import DataFile, DataFileName, write_data_file
from streaming.pipeline.task.context import BatchContext, TaskSettings

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of records in memory before a file is written."""


class TaskFiles:
    """Collects the rows of one task for one table.

    Attributes:
        index: of the file that rows go into now, from 0.
        rows: how many are in it already.
    """

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
        """Take rows whose records have so many bytes."""
        self._tables.append(table)
        self.rows += table.num_rows
        self._bytes += size
        if self._bytes >= MAX_FILE_BYTES:
            self._write()

    def _write(self) -> None:
        if not self._tables:
            return
        context = self._context
        name = DataFileName(
            context.query_id, context.batch_id, self._spec.name, context.partition, self.index
        )
        storage = self._settings.tables.below(self._spec.name).storage()
        file = write_data_file(storage, self._spec, name, _plain_concat(self._tables))
        if file is not None:
            self._files.append(file)
        self.index += 1
        self._tables, self.rows, self._bytes = [], 0, 0

    def close(self) -> list[DataFile]:
        """Write what is left; the descriptions of all files."""
        self._write()
        return self._files


def _plain_concat(tables: list[pa.Table]) -> pa.Table:
    """Tables one after the other, dictionaries unified."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
