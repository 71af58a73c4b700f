"""Questions about the tables of a job, from Python; the command line asks the same ones.

The job need not run. Every answer of one `open_tables` is about the same version of a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.instant import last_batch, resolve
from streaming.queries.as_of.snapshots import Snapshot, list_snapshots
from streaming.queries.audit.balance import Balance, balance
from streaming.queries.cut import Cut
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.groups import dead_letter_groups
from streaming.queries.dead_letters.letters import dead_letters
from streaming.queries.dead_letters.summary import DeadLetterSummary, summary_of
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.life.copies import CopyLife, copies_of
from streaming.queries.message_history import MessageHistory, history_of
from streaming.queries.quarantine import list_quarantine
from streaming.queries.queue_changes import queue_changes
from streaming.queries.queues import QueueDepth, list_queues, peek
from streaming.queries.redrives.outcomes import RedriveOutcome, list_redrives, outcome_of
from streaming.queries.redrives.plan import RedrivePlan, RedriveWish, plan_redrive
from streaming.queries.result import QueryResult, RowsResult
from streaming.queries.sql import create_all_views, require_one_query
from streaming.queries.table_info import TableInfo, describe
from streaming.queries.vhosts.clients import list_channels, list_connections, list_consumers
from streaming.queries.vhosts.declared import declared
from streaming.queries.vhosts.declared_rights import rights_of
from streaming.queries.vhosts.listings import (
    binding_rows,
    exchange_rows,
    permission_rows,
    policy_rows,
    queue_rows,
)
from streaming.queries.vhosts.overview import Overview, overview

if TYPE_CHECKING:
    from streaming.queries.life.scenario import Replay
    from streaming.queries.life.what_if import WhatIf

_EVERYTHING = DeadLetterFilter()


@contextmanager
def open_tables(
    location: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    as_of: str | int | datetime | None = None,
    threads: int | None = None,
    user: str | None = None,
    administrators: Sequence[str] = (),
) -> Iterator["Queries"]:
    """Open the tables of a job, for questions inside a `with` block.

    Args:
        location: the folder or URL with one folder per table: `tables_location` in dlx.toml.
        storage_options: as deltalake takes them, for object stores.
        as_of: answer as it was after a batch, at a time (a datetime, or ISO 8601 with a zone), or
            at the arrival of a message such as `1/0/42`; None: after the last batch.
        threads: threads of DuckDB; None: one per core.
        user: hide the bodies, headers and properties of dead letters that this user may not read,
            and refuse to peek or plan there; `sql` and `contents` are not meant for such a user.
        administrators: users who may read everything unless they have permissions of their own.
    """
    with Tables(location, storage_options, threads=threads) as tables:
        if user is not None:
            tables.rights = rights_of(tables, user, administrators)
        if as_of is not None:
            tables.cut = _resolved(tables, as_of)
        yield Queries(tables)


def _resolved(tables: Tables, wanted: str | int | datetime) -> Cut:
    instant = wanted.isoformat() if isinstance(wanted, datetime) else str(wanted)
    return resolve(tables, instant, _instant)


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

    def queue_settings(self, vhost: str | None = None) -> RowsResult:
        """Return every queue with its contents, policies and the settings that result."""
        return self._of_vhost(queue_rows(self.tables), vhost)

    def peek(
        self, queue: str, *, vhost: str | None = None, limit: int = 10, unacked: bool = False
    ) -> RowsResult:
        """Return the messages at the head of a queue, with bodies; nothing is taken.

        Args:
            vhost: required if several vhosts have a queue of that name.
            unacked: what consumers hold, instead of what is ready.
        """
        found = peek(self.tables, queue, vhost=vhost, limit=limit, unacked=unacked)
        return RowsResult(self.tables, found)

    def queue_changes(
        self,
        queue: str,
        first: str | int | datetime,
        last: str | int | datetime | None = None,
        *,
        vhost: str | None = None,
    ) -> RowsResult:
        """Return what entered and left a queue between two instants, and why.

        Args:
            first, last: instants, as `as_of` of `open_tables`; None: after the last batch.
        """
        before = self.tables.cut
        ends = [
            Cut(last_batch(self.tables)) if one is None else self._cut(one) for one in (first, last)
        ]
        try:
            found = queue_changes(self.tables, queue, ends[0], ends[1], vhost)
        finally:
            self.tables.cut = before
        return RowsResult(self.tables, found)

    def exchanges(self, vhost: str | None = None) -> RowsResult:
        """Return the exchanges, the predeclared ones included."""
        return self._of_vhost(exchange_rows(declared(self.tables)), vhost)

    def bindings(self, vhost: str | None = None) -> RowsResult:
        """Return the bindings, without those that the default exchange implies."""
        return self._of_vhost(binding_rows(declared(self.tables)), vhost)

    def policies(self, vhost: str | None = None) -> RowsResult:
        """Return the policies and operator policies, with how many objects each governs."""
        return self._of_vhost(policy_rows(declared(self.tables)), vhost)

    def permissions(self, vhost: str | None = None) -> RowsResult:
        """Return what each user may do."""
        return self._of_vhost(permission_rows(declared(self.tables)), vhost)

    def channels(self, vhost: str | None = None) -> RowsResult:
        """Return the open channels."""
        return self._of_vhost(list_channels(self.tables), vhost)

    def consumers(self, vhost: str | None = None) -> RowsResult:
        """Return the consumers."""
        return self._of_vhost(list_consumers(self.tables), vhost)

    def connections(self, vhost: str | None = None) -> RowsResult:
        """Return the users that have open channels."""
        return self._of_vhost(list_connections(self.tables), vhost)

    def overview(self) -> Overview:
        """Return the totals of the job."""
        return overview(self.tables)

    def balance(self, *, whole: bool = False) -> Balance:
        """Account for every message and copy; `unexplained` is 0 if nothing is missing.

        Args:
            whole: check every row that the tables have, not only those after the last snapshot.
        """
        return balance(self.tables, whole=whole)

    def quarantine(
        self,
        *,
        cause: str | None = None,
        topic: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> RowsResult:
        """Return the Kafka records that could not be understood, the latest first."""
        found, _total = list_quarantine(
            self.tables, cause=cause, topic=topic, since=since, until=until, limit=None
        )
        return RowsResult(self.tables, found)

    def table_sizes(self) -> list[TableInfo]:
        """Return the size of each table, and how far it is behind."""
        return describe(self.tables)

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots, the oldest first."""
        return list_snapshots(self.tables)

    def copies(self, message: str) -> list[CopyLife]:
        """Return the copies of a message as a tree: who held each, and how it ended.

        Args:
            message: as for `history`.
        """
        return copies_of(history_of(self.tables, message))

    def scenario(self, message: str) -> "Replay":
        """Return the life of a message as a scenario, which `dlx simulate` replays.

        Args:
            message: as for `history`.
        """
        from streaming.queries.life.scenario import scenario_of  # noqa: PLC0415 - few need a broker

        return scenario_of(self.tables, history_of(self.tables, message))

    def topology_replay(
        self,
        definitions: bytes,
        since: str | int | datetime | None = None,
        *,
        compat: Literal["3.10", "4.0"] = "4.0",
        processes: int = 1,
    ) -> "WhatIf":
        """Replay what happened with another topology; see `dlx definitions replay`.

        Args:
            definitions: the content of a definitions file.
            since: the instant where it begins, as `as_of` of `open_tables`; None: the beginning.
            processes: how many lanes are replayed at once.
        """
        cut = Cut(-1) if since is None else self._cut(since)
        options = self.tables.options
        from streaming.queries.life.what_if import what_if  # noqa: PLC0415 - few need a broker

        return what_if(
            self.tables, cut, definitions, options=options, compat=compat, processes=processes
        )

    def contents(self) -> QueryResult:
        """Return what is in the queues, one row per copy, up to the last batch."""
        return QueryResult(self.tables, prepare_contents(self.tables))

    def sql(self, query: str) -> QueryResult:
        """Return the answer to a query in DuckDB's SQL; each table is a view of its name."""
        create_all_views(self.tables, query)
        return QueryResult(self.tables, require_one_query(self.tables, query))

    def _cut(self, wanted: str | int | datetime) -> Cut:
        before = self.tables.cut
        try:
            return _resolved(self.tables, wanted)
        finally:
            self.tables.cut = before

    def _of_vhost(self, rows: list[Row], vhost: str | None) -> RowsResult:
        return RowsResult(self.tables, [row for row in rows if vhost in {None, row["vhost"]}])
