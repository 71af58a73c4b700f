"""Questions about the tables of a job, from Python; the command line asks the same ones.

The job need not run. Every answer of one `open_tables` is about the same version of a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from streaming.queries.as_of import resolve
from streaming.queries.current_contents import prepare_contents
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.groups import dead_letter_groups
from streaming.queries.dead_letters.letters import dead_letters
from streaming.queries.dead_letters.summary import DeadLetterSummary, summary_of
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.message_history import MessageHistory, history_of
from streaming.queries.queues import QueueDepth, list_queues
from streaming.queries.redrives.outcomes import RedriveOutcome, list_redrives, outcome_of
from streaming.queries.redrives.plan import RedrivePlan, RedriveWish, plan_redrive
from streaming.queries.result import QueryResult
from streaming.queries.sql import create_all_views, require_one_query

_EVERYTHING = DeadLetterFilter()


@contextmanager
def open_tables(
    location: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    as_of: str | int | datetime | None = None,
    threads: int | None = None,
) -> Iterator["Queries"]:
    """Open the tables of a job, for questions inside a `with` block.

    Args:
        location: the folder or URL with one folder per table: `tables_location` in dlx.toml.
        storage_options: as deltalake takes them, for object stores.
        as_of: answer as it was after a batch, at a time (a datetime, or ISO 8601 with a zone), or
            at the arrival of a message such as `1/0/42`; None: after the last batch.
        threads: threads of DuckDB; None: one per core.
    """
    tables = Tables(location, storage_options, threads=threads)
    try:
        if as_of is not None:
            instant = as_of.isoformat() if isinstance(as_of, datetime) else str(as_of)
            tables.cut = resolve(tables, instant, _instant)
        yield Queries(tables)
    finally:
        tables.close()


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        what = "expected a batch, an instant in ISO 8601 with a zone, or the id of a message"
        raise QueryError(f"as_of: cannot read {text!r}: {what}")
    return instant


class Queries:
    """The questions. A method raises QueryError if a table is missing or an argument is wrong.

    Attributes:
        tables: the open tables; `tables.connection` is DuckDB's connection.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def dead_letters(self, wanted: DeadLetterFilter = _EVERYTHING) -> QueryResult:
        """Return dead letters with all columns; in no order unless the filter has one."""
        return dead_letters(self.tables, wanted)

    def dead_letter_groups(
        self,
        by: Sequence[str] = ("queue", "reason"),
        wanted: DeadLetterFilter = _EVERYTHING,
        *,
        new_since: datetime | None = None,
    ) -> QueryResult:
        """Return dead letters in groups, the largest first.

        Args:
            by: `vhost`, `queue`, `reason`, `exchange`, `routing_key`, `outcome`, `cause` or
                `header:NAME`.
            new_since: adds whether a group is new since this instant, and its deaths since.
        """
        return dead_letter_groups(self.tables, wanted, by, new_since)

    def dead_letter_summary(self, wanted: DeadLetterFilter = _EVERYTHING) -> DeadLetterSummary:
        """Return a first look: how many, since when, the largest and the new groups."""
        return summary_of(self.tables, wanted)

    def history(self, message: str) -> MessageHistory:
        """Return everything known about a message.

        Args:
            message: its id, such as `1/0/42`, or the AMQP property message_id.
        """
        return history_of(self.tables, message)

    def plan_redrive(self, wish: RedriveWish) -> RedrivePlan:
        """Plan to send dead letters back: a sealed plan, and what would happen to its letters.

        `streaming.client` approves it: `channel.approve_redrive(plan.sealed, reason)`.
        """
        return plan_redrive(self.tables, wish)

    def redrives(self, vhost: str | None = None) -> list[Row]:
        """Return the redrives, latest first, with how many letters have which fate."""
        return list_redrives(self.tables, vhost)

    def redrive(self, redrive_id: str, vhost: str | None = None) -> RedriveOutcome:
        """Return a redrive and the fate of each of its letters."""
        return outcome_of(self.tables, redrive_id, vhost)

    def queues(self, vhost: str | None = None) -> list[QueueDepth]:
        """Return every declared queue with its depth."""
        return list_queues(self.tables, vhost)

    def contents(self) -> QueryResult:
        """Return what is in the queues, one row per copy, up to the last batch."""
        return QueryResult(self.tables, prepare_contents(self.tables))

    def sql(self, query: str) -> QueryResult:
        """Return the answer to a query in DuckDB's SQL; each table is a view of its name."""
        create_all_views(self.tables, query)
        return QueryResult(self.tables, require_one_query(self.tables, query))
