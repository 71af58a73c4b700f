"""Commit one batch to one table, exactly once.

    files published --> commit (query id, batch id) --> part of the table
                          |  the table has the batch: skip
                          |  another driver was first: reload, skip
                          |  anything else (new properties, a truncated log): retry

The batch number is in the same log entry as the files (a Delta transaction identifier), so the
table itself records which batches it has.
"""

import threading
import time
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import CommitProperties, Transaction

from streaming.ledger.errors import CommitError
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import Retention, delta_schema, load_table, open_table
from streaming.ledger.write.data_file import DataFile
from streaming.ledger.write.job_fence import Fence
from streaming.ledger.write.log_actions import add_action, commit
from streaming.storage.location import Location
from streaming.storage.port import Storage

Outcome = Literal["committed", "skipped"]

_ATTEMPTS: Final = 5
_RELOAD_AFTER_COMMITS: Final = 100
_CHECKPOINT_AFTER_COMMITS: Final = 500


class TableWriter:
    """Commits batches to one table through a table handle that it keeps loaded.

    A handle gets slower with every commit since the checkpoint that it was loaded from.
    Maintenance makes checkpoints and offers a fresh handle after each. Without maintenance, the
    writer reloads its handle itself, less often.

    Attributes:
        fence: what every commit carries, off local disks; see `raise_fence`.
    """

    fence: Fence | None = None

    def __init__(self, root: Location, name: str, retention: Retention | None = None) -> None:
        self.spec = TABLES[name]
        self.place = root / name
        self.storage = self.place.storage()
        self._schema = delta_schema(self.spec)
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._behind = False  # the handle lacks its own last commit
        self._commits = 0  # since the handle was loaded
        self._offered: DeltaTable | None = None
        open_table(root, name, retention)
        self._load()

    def commit_batch(
        self, query_id: str, batch_id: int, files: Sequence[DataFile], *, even_empty: bool = False
    ) -> Outcome:
        """Commit a batch's files.

        Replay: skipped if the table has this batch of this query, or a later one.

        Args:
            files: published files of this table; if empty, nothing is committed.
            even_empty: commit the number of the batch without files too.

        Raises:
            CommitError: Delta refused every attempt, and the batch is not committed.
        """
        if not (files or even_empty):
            return "skipped"
        refused: DeltaError | None = None
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    table = self._current()
                    if self.fence is not None:
                        self.fence.refuse_lost(table)
                    if _has(table, query_id, batch_id):
                        return "skipped"
                    self._commit(table, query_id, batch_id, files)
                except DeltaError as error:  # reload: the log tells whether it was committed
                    refused, self._table = error, None
                    continue
                self._behind = True
                self._commits += 1
                return "committed"
        raise CommitError(
            f"{self.place.url}: batch {batch_id} could not be committed in {_ATTEMPTS} attempts: "
            f"{refused}"
        ) from refused

    def _commit(
        self, table: DeltaTable, query_id: str, batch_id: int, files: Sequence[DataFile]
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions = [
            add_action(self.spec, file.path, file.size, file.rows, file.ranges, modified_ms=now_ms)
            for file in files
        ]
        transactions = [Transaction(query_id, batch_id)]
        if self.fence is not None:
            transactions.append(self.fence.transaction)
        commit(table, self._schema, actions, CommitProperties(app_transactions=transactions))

    def raise_fence(self, fence: Fence) -> None:
        """Let the table refuse drivers of an earlier epoch from now on.

        Raises:
            FencedError: a later driver has done so.
            CommitError: Delta refused every attempt.
        """
        self.fence = fence
        refused: DeltaError | None = None
        with self._lock:
            for _ in range(_ATTEMPTS):
                table = self._load()
                fence.refuse_lost(table)
                if fence.is_raised(table):
                    return
                try:
                    properties = CommitProperties(app_transactions=[fence.transaction])
                    commit(table, self._schema, [], properties)
                except DeltaError as error:
                    refused = error
                    continue
                self._behind = True
                return
        raise CommitError(f"{self.place.url}: the lease could not be recorded: {refused}")

    @property
    def version(self) -> int:
        """The latest version of the table that this writer knows, without a request."""
        table = self._table
        return 0 if table is None else table.version() + self._behind

    def last_batch(self, query_id: str) -> int | None:
        """The highest batch of a query in the table; None if it has none."""
        return self.table().transaction_version(query_id)

    def table(self) -> DeltaTable:
        """Load the latest version of the table for reading."""
        with self._lock:
            return self._load()

    def offer(self, table: DeltaTable) -> None:
        """Offer a freshly loaded handle, to be used from the next call on."""
        self._offered = table

    def refresh(self) -> None:
        """Load recent commits between batches, to make the next commit faster."""
        with self._lock:
            try:
                self._current()
            except DeltaError:  # the next commit retries and reports the error
                self._table = None

    def _current(self) -> DeltaTable:
        """The handle at the latest version this writer knows, reloaded if it is due."""
        offered, self._offered = self._offered, None
        if offered is not None:
            self._table, self._behind, self._commits = offered, True, 0
        if self._table is None or self._commits >= _RELOAD_AFTER_COMMITS:
            return self._load()
        if self._behind:
            self._table.update_incremental()
            self._behind = False
        return self._table

    def _load(self) -> DeltaTable:
        table = load_table(self.place)
        if table.version() - max(last_checkpoint(self.storage), 0) >= _CHECKPOINT_AFTER_COMMITS:
            table.create_checkpoint()
            table = load_table(self.place)
        self._table, self._behind, self._commits = table, False, 0
        return table


def _has(table: DeltaTable, query_id: str, batch_id: int) -> bool:
    last = table.transaction_version(query_id)
    return last is not None and last >= batch_id


class _LastCheckpoint(msgspec.Struct):
    version: int


def last_checkpoint(storage: Storage) -> int:
    """The version of a table's last checkpoint; -1 if it has none."""
    try:
        with storage.open("_delta_log/_last_checkpoint") as file:
            return msgspec.json.decode(file.read(), type=_LastCheckpoint).version
    except (OSError, msgspec.DecodeError):  # missing, or just being written
        return -1
