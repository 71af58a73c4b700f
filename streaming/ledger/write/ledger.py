"""The ledger: messages, quarantine, dead letters and events, committed together batch by batch.

Delta commits one table at a time. The order makes a batch one thing: its messages, then what was
quarantined, its dead letters, and last its events with the row of kind `batch`. With that last
commit the batch has happened. A crash anywhere before is healed by the replay, which commits what
is missing and skips the rest.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

import msgspec

from streaming.ledger.read.query_ids import query_ids
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.storage import Place
from streaming.ledger.write.batch_row import BatchRow, last_batch_row, write_batch_row
from streaming.ledger.write.data_file import DataFile
from streaming.ledger.write.table_writer import Outcome, TableWriter

FIRST_BATCH: Final = 0
"""Its row is there in any case: by it the tables are known as its query's."""


class Committed(msgspec.Struct, frozen=True):
    """What became of a batch.

    Attributes:
        outcomes: by table, in the order of the commits; "skipped" also where there were no rows.
        seconds: spent on each table.
        tables: that have rows of it.
    """

    outcomes: dict[str, Outcome]
    seconds: dict[str, float]
    tables: tuple[str, ...]


class Ledger:
    """The driver's way into the ledger. Not for two threads at once; close it at the end."""

    def __init__(self, root: Place, retention: Retention | None = None) -> None:
        """Open the tables below a root; make those that are not there.

        Raises:
            TableMismatchError: a table is not one of this version.
        """
        self.root = root
        self.writers = {name: TableWriter(root, name, retention) for name in LEDGER}
        self._refresher = ThreadPoolExecutor(1, thread_name_prefix="ledger-refresh")
        self._refreshing: Future[None] | None = None

    def commit(self, files: Iterable[DataFile], batch: BatchRow) -> Committed:
        """Commit a batch. One without files leaves nothing, unless it is the first of its query.

        Replay: tables that have the batch are skipped; the result is the same tables.

        Args:
            files: of all tables, in any order, published before.
            batch: its row, published here. Its ids are those of the commits.

        Raises:
            CommitError: Delta refused a commit for good.
            DataFileConflictError: the file of the batch's row holds something else.
        """
        by_table: dict[str, list[DataFile]] = {name: [] for name in LEDGER}
        for file in files:
            by_table[file.table].append(file)
        if self._refreshing is not None:
            self._refreshing.result()
        outcomes: dict[str, Outcome] = {}
        seconds: dict[str, float] = {}
        occurred = batch.batch_id == FIRST_BATCH or any(by_table.values())
        for name in LEDGER:
            started = time.perf_counter()
            if name == LEDGER[-1] and occurred:
                by_table[name].append(write_batch_row(self._events.storage, batch))
            outcomes[name] = self.writers[name].commit_batch(
                batch.query_id, batch.batch_id, by_table[name]
            )
            seconds[name] = time.perf_counter() - started
        self._refreshing = self._refresher.submit(self._refresh)
        return Committed(outcomes, seconds, tuple(name for name in LEDGER if by_table[name]))

    def last_batch(self, query_id: str) -> BatchRow | None:
        """The row of the last batch that happened under a query id; None if there was none."""
        events = self._events
        return last_batch_row(events.table(), events.storage, query_id)

    def query_ids(self) -> set[str]:
        """The Spark queries that have rows in any table."""
        found: set[str] = set()
        for writer in self.writers.values():
            found |= query_ids(writer.table(), writer.storage)
        return found

    def last_batches(self, query_id: str) -> dict[str, int]:
        """By table the last batch of a query that it has; those that have one."""
        known = {name: writer.last_batch(query_id) for name, writer in self.writers.items()}
        return {name: batch for name, batch in known.items() if batch is not None}

    def close(self) -> None:
        """Wait for what runs in the background."""
        self._refresher.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _events(self) -> TableWriter:
        return self.writers[LEDGER[-1]]

    def _refresh(self) -> None:
        """While Spark prepares the next batch, learn of the last commits."""
        for writer in self.writers.values():
            writer.refresh()
