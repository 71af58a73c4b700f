"""Whether tables are those that a checkpoint's batches went to; others are refused, in words.

The state knows where in the tables each message is, and the tables know by the query's id which
batches they have. Rows of another query would share keys with ours; an older copy of the checkpoint
would make other batches of numbers that the tables have already, and skip them; an older copy of a
table lacks what the state counts on.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from topology.errors import DlxError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streaming.ledger.write.ledger import Ledger


class CheckpointError(DlxError):
    """The checkpoint cannot be used by this job as it is configured."""


class TablesSeen(NamedTuple):
    """What the tables say of who wrote them.

    Attributes:
        queries: Spark queries with rows there.
        batches: by table the last batch of the checkpoint's own query; those that have one.
    """

    queries: frozenset[str] = frozenset()
    batches: Mapping[str, int] = MappingProxyType({})

    @property
    def last_batch(self) -> int | None:
        """The last batch that any table has, in part or whole."""
        return max(self.batches.values(), default=None)


def look_at_tables(ledger: Ledger, query_id: str | None) -> TablesSeen:
    """Who wrote the tables; `query_id` is the checkpoint's."""
    batches = {} if query_id is None else ledger.last_batches(query_id)
    return TablesSeen(frozenset(ledger.query_ids()), batches)


def refuse_foreign_tables(
    path: Path,
    query_id: str | None,
    tables: TablesSeen,
    *,
    last_planned: int | None,
    last_committed: int | None,
    written: Mapping[str, int],
) -> None:
    """Refuse tables that do not belong to the checkpoint at `path`.

    Args:
        written: by table the last batch that it must have (`written_batches.py`).

    Raises:
        CheckpointError: with what is wrong, and what to do.
    """
    foreign = sorted(tables.queries - {query_id})
    if foreign and tables.last_batch is not None:
        raise CheckpointError(
            f"job.tables_location: the tables there have batches of {path} and of another "
            f"checkpoint (Spark query {', '.join(foreign)}): two jobs have written to them. They "
            "can be read but not continued: give each job new tables and a new checkpoint"
        )
    if foreign:
        raise CheckpointError(
            f"job.tables_location: the tables there have batches of Spark query "
            f"{', '.join(foreign)}, and {path} is not the checkpoint they were written with. Name "
            "that checkpoint, or name the tables that belong to this one. Without their "
            "checkpoint tables can be read but not continued: give the job new ones"
        )
    if tables.last_batch is None and last_committed is not None and not tables.queries:
        raise CheckpointError(
            f"job.tables_location: the tables there have no batch, and {path} has run "
            f"{last_committed + 1}: its messages are in other tables. Name those; without them "
            "this checkpoint cannot go on: give the job a new one"
        )
    begun = 0 if last_planned is None else last_planned + 1
    if tables.last_batch is not None and tables.last_batch >= begun:
        raise CheckpointError(
            f"job.checkpoint_location: {path} has begun {begun} batches, and the tables have "
            f"{tables.last_batch + 1} of it: it is an older copy. Restore the newest; without it "
            "these tables can be read but not continued: give the job a new checkpoint and new "
            "tables"
        )
    for table, batch_id in written.items():
        has = tables.batches.get(table)
        if has is None or has < batch_id:
            raise CheckpointError(
                f"job.tables_location: the last batch in the table {table} is "
                f"{'none' if has is None else has}, and {path} has written {batch_id} to it: the "
                "table was put back to an older state. Restore the newest, or the checkpoint of "
                "that time with all of its tables; without it give the job a new checkpoint and "
                "new tables"
            )
