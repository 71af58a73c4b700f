"""Whether tables and checkpoint belong together; if not, the job refuses them.

The state says where in the tables each message is, and the tables know the batches of each query.
Rows of another query have the same keys as ours. An older checkpoint would repeat batch numbers
that the tables have, and skip those batches. An older table lacks rows that the state needs.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.errors import TablesMismatchError
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.storage.json_file import read_json_file, write_json_file
from streaming.storage.location import AnyPath

FILE = "batches.json"

_REMEDY = "Move it away: its only use is to detect tables that were restored to an older state"
_READ_ONLY = (
    "these tables can be read but not continued: give the job a new checkpoint and new tables"
)


class WrittenBatches:
    """The last batch of each table that has rows; the file follows the commits.

    A table restored from an older backup has fewer batches. So the next start detects it, not the
    first reader of a missing message.
    """

    def __init__(self, checkpoint: AnyPath) -> None:
        self._path = checkpoint / FILE
        self.last: dict[str, int] = read_json_file(self._path, dict[str, int], _REMEDY) or {}

    def add(self, batch_id: int, tables: Iterable[str]) -> None:
        """Store that these tables have the batch."""
        changes = dict.fromkeys(tables, batch_id)
        if changes:
            self.last |= changes
            write_json_file(self._path, self.last)


class TableBatches(NamedTuple):
    """The Spark queries that wrote the tables, and each table's last batch of our own query."""

    queries: frozenset[str] = frozenset()
    batches: Mapping[str, int] = MappingProxyType({})

    @property
    def last_batch(self) -> int | None:
        """The last batch that any table has."""
        return max(self.batches.values(), default=None)


def read_table_batches(ledger: Ledger, query_id: str | None) -> TableBatches:
    """Read which queries wrote the tables; `query_id` is the checkpoint's."""
    batches = {} if query_id is None else ledger.last_batches(query_id)
    return TableBatches(frozenset(ledger.query_ids()), batches)


def refuse_mismatch(
    path: AnyPath, logs: SparkLogs, written: WrittenBatches, tables: TableBatches
) -> None:
    """Refuse tables that do not belong to the checkpoint at `path`.

    Raises:
        CheckpointError: says what is wrong, and what to do.
    """
    last_planned, last_committed = logs.last_planned(), logs.last_committed()
    last_batch = tables.last_batch
    foreign = ", ".join(sorted(tables.queries - {logs.query_id()}))
    if foreign and last_batch is not None:
        raise TablesMismatchError(
            f"job.tables_location: the tables have batches of {path} and of another checkpoint "
            f"(Spark query {foreign}): two jobs wrote to them. They can be read but not continued: "
            "give each job new tables and a new checkpoint"
        )
    if foreign:
        raise TablesMismatchError(
            f"job.tables_location: the tables have batches of Spark query {foreign}, which is not "
            f"the query of the checkpoint {path}. Name the checkpoint of these tables, or the "
            "tables of this checkpoint. If the checkpoint of these tables is lost, `dlx checkpoint "
            "rebuild` makes a new one from them"
        )
    if last_batch is None and last_committed is not None and not tables.queries:
        raise TablesMismatchError(
            f"job.tables_location: the tables have no batch, but {path} has run "
            f"{last_committed + 1}: its messages are in other tables. Name those. Without them "
            "this checkpoint cannot be continued: give the job a new one"
        )
    begun = 0 if last_planned is None else last_planned + 1
    if last_batch is not None and last_batch >= begun:
        raise TablesMismatchError(
            f"job.checkpoint_location: {path} has begun {begun} batches, but the tables have "
            f"{last_batch + 1} of its batches: it is an older copy. Restore the newest one; if it "
            "is lost, `dlx checkpoint rebuild --replace` makes a new one from the tables"
        )
    for table, batch_id in written.last.items():
        has = tables.batches.get(table)
        if has is None or has < batch_id:
            raise TablesMismatchError(
                f"job.tables_location: the last batch in the table {table} is "
                f"{'none' if has is None else has}, but {path} has written batch {batch_id} to it: "
                "the table was restored to an older state. Restore the newest table, or the "
                "checkpoint and all tables of one time; without them, "
                f"{_READ_ONLY}"
            )
