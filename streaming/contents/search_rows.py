"""Remove rows of `search_keys` whose messages are gone: with their data, their values go too."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.contents.replacement import replace_rows
from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table, table_exists
from streaming.ledger.upkeep.compaction import conformed
from streaming.queries.duckdb_tables import Tables
from streaming.queries.search_index import SEARCH_KEYS
from streaming.storage.location import Location

_KEY: Final = '(topic_number, "partition", "offset")'
_ATTEMPTS: Final = 5


def forget(root: Location, tables: Tables, which: str, until: int | None = None) -> int:
    """Remove the rows of messages; return how many.

    Args:
        which: in SQL, a query for the messages' `topic_number, partition, offset`; they are those
            whose rows go, or with `until` those whose rows stay.
        until: look only at rows up to this batch, and remove those of all other messages.

    Raises:
        CommitError: other processes kept changing the table.
    """
    place, spec = root / SEARCH_KEYS, TABLES[SEARCH_KEYS]
    if not table_exists(place):
        return 0
    gone = f"{_KEY} IN ({which})"
    if until is not None:
        gone = f"batch_id <= {until} AND {_KEY} NOT IN ({which})"
    schema = spec.schema.remove_metadata()
    removed = 0
    for _ in range(_ATTEMPTS):
        files = ActiveFiles(load_table(place))
        old = np.ones(len(files), bool) if until is None else files.least("batch_id") <= until
        try:
            for index in np.flatnonzero(old):
                path = files.paths[index]
                with place.storage().open(path) as file:
                    rows = conformed(pq.ParquetFile(file).read(), schema)
                tables.connection.register("old", rows)
                sql = f"SELECT * FROM old WHERE NOT coalesce({gone}, false) ORDER BY {spec.sort}"
                kept: pa.Table = tables.connection.sql(sql).to_arrow_table().cast(schema)
                tables.connection.unregister("old")
                if kept.num_rows < rows.num_rows:
                    replace_rows(place, spec, [path], kept)
                    removed += rows.num_rows - kept.num_rows
        except (CommitError, FileNotFoundError):  # compacted meanwhile
            continue
        return removed
    raise CommitError(f"{place.url}: other processes kept changing the table; run it again")
