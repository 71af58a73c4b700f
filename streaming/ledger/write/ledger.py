"""The ledger: messages, quarantine, dead letters and events, committed together batch by batch.

Delta commits one table at a time, so the order makes a batch atomic: messages, quarantine, dead
letters, then events with the row of kind `batch`. The batch has happened once that last commit
succeeded. After a crash, the replay commits the tables that are missing and skips the others.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Self

import msgspec
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.write.batch_row import last_batch_row, write_batch_row
from streaming.ledger.write.data_file import DataFile, DataFileName
from streaming.ledger.write.durability import flush_entries, mend_log
from streaming.ledger.write.job_fence import Fence
from streaming.ledger.write.table_writer import Outcome, TableWriter
from streaming.storage.location import Location
from streaming.storage.port import Storage

FIRST_BATCH: Final = 0
"""Its row is always written: it marks the tables as belonging to the query."""

_FOOTER_READERS: Final = 16


class Committed(msgspec.Struct, frozen=True):
    """The result of committing a batch.

    Attributes:
        outcomes: by table, in commit order; "skipped" also if the table had no rows.
    """

    outcomes: dict[str, Outcome]
    seconds: dict[str, float]
    tables: tuple[str, ...]


class Ledger:
    """The driver's access to the ledger. Use it from one thread at a time; close it at the end."""

    def __init__(self, root: Location, retention: Retention | None = None) -> None:
        self.root = root
        for name in LEDGER:
            mend_log(root / name)
        self.writers = {name: TableWriter(root, name, retention) for name in LEDGER}
        self._refresher = ThreadPoolExecutor(1, thread_name_prefix="ledger-refresh")
        self._refreshing: Future[None] | None = None

    def commit(
        self,
        files: Iterable[DataFile],
        batch: BatchRow,
        *,
        needs_messages: bool = False,
        needs_row: bool = False,
    ) -> Committed:
        """Commit a batch. A batch without files commits nothing, unless it is the query's first.

        Replay: tables that have the batch are skipped; the resulting tables are the same.

        Args:
            files: the published files of all tables, in any order.
            batch: the batch's row, published here. The commits carry its ids.
            needs_messages: it has put earlier messages into queues again, so it commits `messages`
                in any case: whoever removes rows there sees that, and waits for its events.
            needs_row: its row says what a restart has to know, so it is written in any case.

        Raises:
            CommitError: Delta refused every attempt of a commit.
            DataFileConflictError: the file of the batch row holds other content.
        """
        by_table: dict[str, list[DataFile]] = {name: [] for name in LEDGER}
        for file in files:
            by_table[file.table].append(file)
        if self._refreshing is not None:
            self._refreshing.result()
        outcomes: dict[str, Outcome] = {}
        seconds: dict[str, float] = {}
        occurred = needs_row or batch.batch_id == FIRST_BATCH or any(by_table.values())
        for name in LEDGER:
            started = time.perf_counter()
            if name == LEDGER[-1] and occurred:
                by_table[name].append(write_batch_row(self._events.storage, batch))
            writer = self.writers[name]
            outcomes[name] = writer.commit_batch(
                batch.query_id,
                batch.batch_id,
                by_table[name],
                even_empty=needs_messages and name == LEDGER[0],
            )
            seconds[name] = time.perf_counter() - started
        flush_entries(
            (self.writers[name].place, self.writers[name].version)
            for name, outcome in outcomes.items()
            if outcome == "committed"
        )
        self._refreshing = self._refresher.submit(self._refresh)
        return Committed(outcomes, seconds, tuple(name for name in LEDGER if by_table[name]))

    def raise_fence(self, fence: Fence) -> None:
        """Let every table refuse the commits of drivers with an earlier epoch."""
        for writer in self.writers.values():
            writer.raise_fence(fence)

    def last_batch(self, query_id: str) -> BatchRow | None:
        """The row of a query's last batch; None if it has committed none."""
        events = self._events
        return last_batch_row(events.table(), events.storage, query_id)

    def query_ids(self) -> set[str]:
        """The Spark queries that have rows in any table."""
        found: set[str] = set()
        for writer in self.writers.values():
            found |= query_ids(writer.table(), writer.storage)
        return found

    def last_batches(self, query_id: str) -> dict[str, int]:
        """The last batch of a query by table, without the tables that have none."""
        known = {name: writer.last_batch(query_id) for name, writer in self.writers.items()}
        return {name: batch for name, batch in known.items() if batch is not None}

    def close(self) -> None:
        """Wait for background work to end."""
        self._refresher.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _events(self) -> TableWriter:
        return self.writers[LEDGER[-1]]

    def _refresh(self) -> None:
        """Load the last commits while Spark prepares the next batch."""
        for writer in self.writers.values():
            writer.refresh()


def query_ids(table: DeltaTable, storage: Storage) -> set[str]:
    """The queries that have rows in a table.

    The names of batch files contain the query. For compacted files the footers tell: if one holds
    rows of several queries, the alphabetically first and last are found.
    """
    found: set[str] = set()
    compacted = []
    for path in ActiveFiles(table).paths:
        name = DataFileName.parse(path)
        if name is None:
            compacted.append(path)
        else:
            found.add(name.query_id)
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        for queries in readers.map(lambda path: _in_footer(storage, path), compacted):
            found.update(queries)
    return found


def _in_footer(storage: Storage, path: str) -> Iterable[str]:
    try:
        with storage.open(path) as file:
            footer = pq.ParquetFile(file).metadata
    except FileNotFoundError:  # compacted and vacuumed meanwhile
        return ()
    names = [footer.schema.column(index).path for index in range(footer.num_columns)]
    index = names.index("query_id")
    found: set[str] = set()
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is not None and statistics.has_min_max:
            found.update((statistics.min, statistics.max))
    return found
