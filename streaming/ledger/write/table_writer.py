"""The driver's commit of one batch to one table, exactly once.

    files published --> commit (query id, batch id) --> part of the table
                          |  the table has the batch: skipped
                          |  another driver was first: reload, skipped
                          |  anything else (new properties, a log that was cut): once more

The batch's number travels in the same log entry as its files (a Delta transaction identifier), so
the table itself knows which batches it has.
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
from streaming.ledger.storage import Place, Storage
from streaming.ledger.write.data_file import DataFile
from streaming.ledger.write.log_actions import QUIETLY, add_action

Outcome = Literal["committed", "skipped"]

_TRIES: Final = 5
_RELOAD_AFTER_COMMITS: Final = 100
_CHECKPOINT_AFTER_COMMITS: Final = 500


class TableWriter:
    """The write path to one table: a table handle that is kept warm.

    A handle grows dearer with every commit since the checkpoint that it was loaded from.
    Maintenance makes checkpoints and offers a handle loaded from each; without it, the writer helps
    itself, late.
    """

    def __init__(self, root: Place, name: str, retention: Retention | None = None) -> None:
        """Open the table; make it if there is none.

        Raises:
            TableMismatchError: it is not a table of this version.
        """
        self.spec = TABLES[name]
        self.place = root.below(name)
        self.storage = self.place.storage()
        self._schema = delta_schema(self.spec)
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._behind = False  # the handle does not know of its last commit
        self._commits = 0  # since the handle was loaded
        self._offered: DeltaTable | None = None
        open_table(root, name, retention)
        self._load()

    def commit_batch(self, query_id: str, batch_id: int, files: Sequence[DataFile]) -> Outcome:
        """Make a batch's files part of the table.

        Replay: skipped if the table has this batch of this query, or a later one.

        Args:
            files: of this table, published before; empty: nothing to do.

        Raises:
            CommitError: refused again and again, and not because the batch is there.
        """
        if not files:
            return "skipped"
        refused: DeltaError | None = None
        with self._lock:
            for _ in range(_TRIES):
                try:
                    table = self._current()
                    if _has(table, query_id, batch_id):
                        return "skipped"
                    self._commit(table, query_id, batch_id, files)
                except DeltaError as error:  # whatever happened, the log knows: load it and look
                    refused, self._table = error, None
                    continue
                self._behind = True
                self._commits += 1
                return "committed"
        raise CommitError(
            f"{self.place.url}: batch {batch_id} could not be committed in {_TRIES} tries: "
            f"{refused}"
        ) from refused

    def _commit(
        self, table: DeltaTable, query_id: str, batch_id: int, files: Sequence[DataFile]
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions = [
            add_action(
                self.spec,
                path=file.path,
                size=file.size,
                rows=file.rows,
                ranges=file.ranges,
                modified_ms=now_ms,
            )
            for file in files
        ]
        table.create_write_transaction(
            list(actions),
            "append",
            self._schema,
            commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batch_id)]),
            post_commithook_properties=QUIETLY,
        )

    def last_batch(self, query_id: str) -> int | None:
        """The highest batch of a query that the table has; None if it has none."""
        return self.table().transaction_version(query_id)

    def table(self) -> DeltaTable:
        """The table at its latest version, loaded for reading."""
        with self._lock:
            return self._load()

    def offer(self, table: DeltaTable) -> None:
        """Hand over a freshly loaded handle; it is taken up with the next call."""
        self._offered = table

    def refresh(self) -> None:
        """Learn of what was committed; done between batches, it makes the next commit shorter."""
        with self._lock:
            try:
                self._current()
            except DeltaError:  # the next commit tries again, and says what is wrong
                self._table = None

    def _current(self) -> DeltaTable:
        """The handle at the latest version this writer knows of, renewed where it is due."""
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
    """The version of a table's last checkpoint; -1 if there is none."""
    try:
        with storage.open("_delta_log/_last_checkpoint") as file:
            return msgspec.json.decode(file.read(), type=_LastCheckpoint).version
    except (OSError, msgspec.DecodeError):  # absent, or being written this instant
        return -1
