"""Ask the tables in DuckDB's SQL: each Delta table is a view of its name; nothing is written."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import duckdb

from streaming.ledger.schema.views import VIEWS as SHIPPED
from streaming.ledger.schema.views import create_views
from streaming.queries.as_of.contents import CONTENTS, prepare_contents
from streaming.queries.damage import one_line
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.result import plain
from streaming.queries.table_info import NAMES
from topology.suggestions import did_you_mean

VIEWS: Final = (*NAMES, *SHIPPED)
"""The views, in the order of a listing."""

_READING: Final = frozenset({"SELECT", "EXPLAIN", "PRAGMA", "SET", "MULTI"})
_SHOWS_ALL: Final = re.compile(r"\b(?:show|information_schema|duckdb_\w+|pragma)\b", re.IGNORECASE)
_SPACE: Final = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_EXPLAIN: Final = re.compile(
    rf"{_SPACE}explain{_SPACE}(?:analyze\b{_SPACE})?(?:\([^)]*\){_SPACE})?",
    re.IGNORECASE | re.DOTALL,
)
_UNKNOWN_TABLE: Final = re.compile(r"Table with name (?P<name>\S+) does not exist")
_PARSER: Final = "Parser Error: "
_RESERVED: Final = re.compile(r'(?<![\w".])(at|offset)(?![\w"])', re.IGNORECASE)


class Answer(NamedTuple):
    """The answer of one statement.

    Attributes:
        instants: the columns that hold instants.
        rows: plain values by column; instants in ISO 8601, bytes as typed JSON.
    """

    columns: list[str]
    instants: frozenset[str]
    rows: list[dict[str, Any]]


def create_all_views(tables: Tables, sql: str | None = None) -> list[str]:
    """Create the views of the tables that exist; `queue_contents` is a table if there is a cut.

    Args:
        sql: create only the views that this text names, if it names any.

    Returns:
        The names of the views.

    Raises:
        QueryError: there are no tables.
    """
    words = set(re.findall(r"\w+", sql.lower())) if sql and not _SHOWS_ALL.search(sql) else set()
    named = [name for name in VIEWS if name in words] or list(VIEWS)
    wanted = set(named)
    shipped = [name for name in SHIPPED if name in wanted]
    for name in shipped:
        wanted |= SHIPPED[name]
    existing: list[str] = [name for name in NAMES if name in wanted and tables.has(name)]
    if not existing:
        tables.table(next(name for name in NAMES if name in wanted))
    if tables.cut is not None and CONTENTS in existing:
        contents = prepare_contents(tables)  # first: it reads some columns of the events
        tables.drop(CONTENTS)
        tables.connection.execute(f"CREATE TEMP TABLE {CONTENTS} AS {contents}")
    for name in existing:
        if name != CONTENTS or tables.cut is None:
            tables.view(name)
    views = [name for name in SHIPPED if set(existing) >= SHIPPED[name]]
    for name, statement in zip(views, create_views(existing), strict=True):
        if name in shipped:
            tables.drop(name)
            tables.connection.execute(statement)
            existing.append(name)
    return existing


def ask(tables: Tables, sql: str) -> Iterator[Answer]:
    """Run statements that only read, and yield the answer of each.

    Raises:
        QueryError: a statement has a mistake, or would write.
    """
    statements = _statements(tables, sql)
    for statement in statements:
        _refuse_writing(tables, statement.type.name, statement.query)
    for statement in statements:
        try:
            cursor = tables.connection.execute(statement)
            described = cursor.description
            values = cursor.fetchall() if described else []
        except duckdb.OutOfMemoryException:  # the tables say so when they close
            raise
        except duckdb.Error as error:
            raise tables.damage(error) or QueryError(_said(tables, sql, error)) from None
        if statement.type.name == "SET" or not described:
            continue
        columns = _distinct(str(column[0]) for column in described)
        types = [str(column[1]) for column in described]
        instants = {
            name
            for name, kind in zip(columns, types, strict=True)
            if kind == "TIMESTAMP WITH TIME ZONE"
        }
        rows = [dict(zip(columns, map(plain, row), strict=True)) for row in values]
        yield Answer(columns, frozenset(instants), rows)


def _statements(tables: Tables, sql: str) -> list[duckdb.Statement]:
    try:
        return tables.connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(_said(tables, sql, error)) from None


def require_one_query(tables: Tables, sql: str) -> str:
    """Return a query, after checking that it is a single one that only reads.

    Raises:
        QueryError: it has a mistake, would write, or is several statements.
    """
    statements = _statements(tables, sql)
    try:
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise QueryError("expected one query, such as 'FROM dead_letters LIMIT 5'")
        tables.connection.execute(f"EXPLAIN {sql}").fetchall()
    except duckdb.Error as error:
        raise tables.damage(error) or QueryError(_said(tables, sql, error)) from None
    return statements[0].query.rstrip().removesuffix(";")


def _refuse_writing(tables: Tables, kind: str, sql: str) -> None:
    """Refuse every statement that does more than read, inside EXPLAIN ANALYZE too."""
    if kind == "EXPLAIN":
        for statement in _statements(tables, _EXPLAIN.sub("", sql, count=1)):
            _refuse_writing(tables, statement.type.name, statement.query)
    if kind not in _READING:
        raise QueryError(
            f"{kind} is refused: the tables are only read here, with SELECT, FROM, WITH, DESCRIBE, "
            "SUMMARIZE, SHOW and EXPLAIN; to write a file, redirect -o csv or -o json"
        )


def _said(tables: Tables, sql: str, error: Exception) -> str:
    unknown = _UNKNOWN_TABLE.search(str(error))
    if isinstance(error, duckdb.CatalogException) and unknown is not None:
        name = unknown["name"]
        views = create_all_views(tables)
        return f"there is no view {name!r}{did_you_mean(name, views)}: {', '.join(views)}"
    if not isinstance(error, duckdb.ParserException):
        return one_line(error)
    said = f"not valid SQL: {one_line(error).removeprefix(_PARSER)}"
    found = _RESERVED.search(sql)
    if found is not None:
        word = found[0]
        return f'{said}; {word} is a reserved word of DuckDB: write the column as "{word}"'
    return f"{said}; `SHOW TABLES` lists the views, and `DESCRIBE dead_letters` columns of one"


def _distinct(names: Iterable[str]) -> list[str]:
    """The names of columns; a repeated one gets a number."""
    found: list[str] = []
    for name in names:
        number, one = 1, name
        while one in found:
            one = f"{name}_{number}"
            number += 1
        found.append(one)
    return found
