"""SQL: a query of the user, behind a sandbox, within time, memory and rows."""

from typing import Any, Final

import duckdb

from streaming.console.forms.letters import require_sql
from streaming.console.page import Answer, Refused, View
from streaming.console.pages.search import MAX_EXPORTED, as_file
from streaming.queries.damage import one_line
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.result import QueryResult, plain
from streaming.queries.sandbox import require_harmless, sandbox
from streaming.queries.sql import VIEWS, create_all_views, require_one_query
from topology.sentences import say

MAX_ROWS: Final = 500
FORMATS: Final = ("csv", "jsonl", "parquet")
EXAMPLES: Final = (
    "SELECT queue, reason, count(*) AS letters FROM dead_letters GROUP BY ALL ORDER BY ALL",
    "SELECT kind, count(*) FROM events GROUP BY ALL ORDER BY ALL",
    "DESCRIBE dead_letters",
)


def sql(view: View) -> Answer:
    """Show the answer to a query."""
    require_sql(view)
    given = view.text("sql", "") or ""
    view.command = view.dlx("query", names=[given] if given else (), vhost=False)
    page = {"sql": given, "examples": EXAMPLES, "views": VIEWS}
    if not given:
        return {**page, "columns": [], "rows": [], "total": None}
    query = _prepare(view, given)
    try:
        [(total,)] = view.tables.values(f"SELECT count(*) FROM (\n{query}\n)")  # noqa: S608 - runs in the sandbox
        cursor = view.tables.connection.execute(query)
        columns = [str(column[0]) for column in cursor.description or ()]
        rows = cursor.fetchmany(MAX_ROWS)
    except (duckdb.InterruptException, duckdb.OutOfMemoryException):
        raise  # the reader says which budget is over
    except duckdb.Error as error:
        raise view.tables.damage(error) or QueryError(one_line(error)) from None
    shown: list[list[Any]] = [[plain(value) for value in row] for row in rows]
    return {**page, "columns": columns, "rows": shown, "total": total}


def export_sql(view: View) -> Answer:
    """Send the answer to a query as a file."""
    require_sql(view)
    given = view.text("sql")
    if given is None:
        raise Refused(400, say("Write a query: the address has no parameter sql."))
    query = _prepare(view, given)
    limited = f"SELECT * FROM (\n{query}\n) LIMIT {MAX_EXPORTED}"  # noqa: S608 - runs in the sandbox
    return as_file(QueryResult(view.tables, limited), "query", view.one_of("format", *FORMATS))


def _prepare(view: View, given: str) -> str:
    """Create the views that a query names, check it, close the sandbox, and return the query."""
    create_all_views(view.tables, given)
    require_harmless(view.tables, given, VIEWS)
    sandbox(view.tables)
    return require_one_query(view.tables, given)
