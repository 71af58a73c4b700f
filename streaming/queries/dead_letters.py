"""Query the dead letters."""

import re
from datetime import datetime
from typing import Any, Final

import duckdb
import msgspec

from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso, one_line, quoted, text
from streaming.queries.message_attributes import ENCODED, MessageId, plain_attributes, present

NAME: Final = "dead_letters"


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters to list; None matches everything.

    Attributes:
        since: only deaths at or after this instant.
        until: only deaths before this instant.
        where: a condition in DuckDB's SQL on the columns of `dead_letters`.
        limit: how many to list; None: all.
        order: the column to sort by, and whether the largest comes first; None: the latest first.
    """

    vhost: str | None = None
    queue: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    where: str | None = None
    limit: int | None = 50
    order: tuple[str, bool] | None = None


def list_dead_letters(tables: Tables, wanted: DeadLetterFilter) -> list[Row]:
    """List dead letters as `plain_row` returns them, the latest first.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    conditions, parameters = _conditions(tables, wanted)
    limit = "" if wanted.limit is None else f"LIMIT {wanted.limit}"
    order = ""
    if wanted.order is not None:
        column, reverse = wanted.order
        order = f"{quoted(column)} {'DESC' if reverse else 'ASC'} NULLS LAST, "
    sql = f"""
        SELECT * REPLACE ({ENCODED})
        FROM {NAME} WHERE {conditions}
        ORDER BY {order}"at" DESC, vhost, lane, seq DESC {limit}
    """
    return [plain_row(row) for row in _asked(tables, wanted, sql, parameters)]


def count_dead_letters(tables: Tables, wanted: DeadLetterFilter) -> int:
    """Count the dead letters that a filter matches, whatever its limit."""
    conditions, parameters = _conditions(tables, wanted)
    sql = f"SELECT count(*) AS found FROM {NAME} WHERE {conditions}"
    [row] = _asked(tables, wanted, sql, parameters)
    return int(row["found"])


def _conditions(tables: Tables, wanted: DeadLetterFilter) -> tuple[str, list[object]]:
    """Create the view, and return the condition of a filter with its parameters."""
    above = {} if wanted.since is None else {"at": wanted.since}
    tables.view(NAME, files=tables.files(NAME, above, inclusive=True))
    conditions = ["true"]
    parameters: list[object] = []
    for column in ("vhost", "queue", "reason"):
        value = getattr(wanted, column)
        if value is not None:
            conditions.append(f"{column} = ?")
            parameters.append(value)
    for operator, instant in ((">=", wanted.since), ("<", wanted.until)):
        if instant is not None:
            moment = f"CAST({text(instant.isoformat())} AS TIMESTAMPTZ)"
            conditions.append(f'"at" {operator} {moment}')
    if wanted.where is not None:
        check_condition(tables, wanted.where)
        conditions.append(f"(\n{wanted.where}\n)")
    return " AND ".join(conditions), parameters


def _asked(
    tables: Tables, wanted: DeadLetterFilter, sql: str, parameters: list[object]
) -> list[Row]:
    try:
        return tables.rows(sql, parameters)
    except (duckdb.DataError, duckdb.ProgrammingError) as error:
        if wanted.where is None:
            raise
        raise _bad_condition(wanted.where, error) from None


def check_condition(tables: Tables, where: str) -> None:
    """Check that DuckDB understands a condition on the view.

    It must be valid both by itself, which `a) OR (b` is not, and in parentheses, which
    `a ORDER BY b` is not: other filters are combined with it.

    Raises:
        QueryError: it is not valid; the message quotes DuckDB's error and its place.
    """
    if not where.strip():
        raise QueryError("--where is empty: give a condition such as \"routing_key LIKE '%eu%'\"")
    try:
        for condition in (where, f"(\n{where}\n)"):
            sql = f"SELECT 1 FROM {NAME} WHERE\n{condition}\n"
            if len(tables.connection.extract_statements(sql)) != 1:
                raise QueryError(f"--where: {where!r} is more than one condition")
            tables.connection.execute(f"EXPLAIN {sql}").fetchall()
    except duckdb.Error as error:
        raise _bad_condition(where, error) from None


def _bad_condition(where: str, error: Exception) -> QueryError:
    hint = ""
    if isinstance(error, duckdb.ParserException) and re.search(r'(?<![\w"])at(?![\w"])', where):
        hint = '; at is a reserved word of DuckDB: write the column in double quotes, "at"'
    return QueryError(f"--where {where!r}: {one_line(error)}{hint}")


def queues_of_deaths(tables: Tables) -> list[str]:
    """The names of the queues in which messages have died."""
    tables.view(NAME, columns=["queue"])
    return [queue for (queue,) in tables.values(f"SELECT DISTINCT queue FROM {NAME} ORDER BY ALL")]


def plain_row(row: Row) -> Row:
    """A row of `dead_letters` with nested columns as plain values."""
    deaths: list[dict[str, Any]] = row["x_death"] or []
    return {
        **row,
        "at": iso(row["at"]),
        "message_id": str(MessageId.of(row["message_id"]) or "") or None,
        "x_death": [present({**death, "time": iso(death["time"])}) for death in deaths],
        **plain_attributes(row),
    }
