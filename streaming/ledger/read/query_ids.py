"""Which Spark queries have written rows of a table."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.storage import Storage
from streaming.ledger.write.data_file import DataFileName

_COLUMN: Final = "query_id"
_READERS: Final = 16


def query_ids(table: DeltaTable, storage: Storage) -> set[str]:
    """The queries with rows in a table.

    The files of batches have their query in their names; of joined files the footers tell. Of a
    joined file with rows of several queries, the first and last by name are found.
    """
    found: set[str] = set()
    joined = []
    for path in ActiveFiles(table).paths:
        name = DataFileName.parse(path)
        if name is None:
            joined.append(path)
        else:
            found.add(name.query_id)
    with ThreadPoolExecutor(_READERS) as readers:
        for queries in readers.map(lambda path: _in_footer(storage, path), joined):
            found.update(queries)
    return found


def _in_footer(storage: Storage, path: str) -> Iterable[str]:
    try:
        with storage.open(path) as file:
            footer = pq.ParquetFile(file).metadata
    except FileNotFoundError:  # joined with others and vacuumed meanwhile
        return ()
    names = [footer.schema.column(index).path for index in range(footer.num_columns)]
    index = names.index(_COLUMN)
    found: set[str] = set()
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is not None and statistics.has_min_max:
            found.update((statistics.min, statistics.max))
    return found
