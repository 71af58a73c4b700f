"""Which dead letters a question is about: a filter, as a condition in DuckDB's SQL.

Equal values and instants reach the files: Delta's statistics skip files, and Parquet's skip row
groups. Headers are looked for only in rows whose JSON contains the value at all.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal

import duckdb
import msgspec

from streaming.queries.damage import one_line
from streaming.queries.dead_letters.cause_texts import CauseSource, json_pointer, stripped
from streaming.queries.duckdb_tables import QueryError, Tables, text
from streaming.queries.ends import IS_DROPPED, IS_LOST
from streaming.queries.message_attributes import MessageId
from streaming.queries.sandbox import require_no_detour

NAME: Final = "dead_letters"

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f]')
"""Characters that JSON writes in another form."""


_EXAMPLES: Final = {
    "--where": "a condition such as \"routing_key LIKE '%eu%'\"",
    "--cause-sql": "an expression such as \"decode(body) ->> 'error'\"",
}


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters a question is about; None, or nothing, matches everything.

    Attributes:
        exchange: the exchange it was last published or dead-lettered to before it died.
        routing_key: one of its routing keys before it died.
        headers: names with the value each must have, as text; a value of None: it must exist. AMQP
            headers and Kafka headers count.
        cause: its cause, as `groups` prints it.
        cause_source: where causes are; see `CauseSource`.
        end: letters that no queue took: `lost` or `dropped`; see `streaming.queries.ends`.
        ids: these messages.
        since: only deaths at or after this instant.
        until: only deaths before this instant.
        where: a condition in DuckDB's SQL on the columns of `dead_letters`.
        limit: how many to list; None: all. Only a list has a limit.
        order: the column to sort by, and whether the largest comes first; None: the latest first.
    """

    vhost: str | None = None
    queue: str | None = None
    reason: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    headers: tuple[tuple[str, str | None], ...] = ()
    cause: str | None = None
    cause_source: CauseSource = CauseSource()
    end: Literal["lost", "dropped"] | None = None
    ids: tuple[MessageId, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    where: str | None = None
    limit: int | None = None
    order: tuple[str, bool] | None = None


class Selection:
    """The dead letters that a filter matches, ready to be asked.

    Attributes:
        source: the table in FROM; its name in conditions is `dead_letters`.
        condition: the condition of WHERE.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """

    def __init__(self, tables: Tables, wanted: DeadLetterFilter) -> None:
        self._tables = tables
        self._texts = {"--where": wanted.where, "--cause-sql": wanted.cause_source.sql}
        above = {} if wanted.since is None else {"at": wanted.since}
        files = tables.files(NAME, above, inclusive=True)
        view = tables.view(NAME, files=files, view=tables.new_name(NAME))
        self.source = f"{view} AS {NAME}"
        for option, sql in self._texts.items():
            if sql is not None:
                self._check(option, sql)
        self.condition = " AND ".join(["true", *conditions(wanted)])

    def query(self, columns: str, more: str = "") -> str:
        """The query of columns of the matching rows.

        Args:
            more: what follows the condition.
        """
        return f"SELECT {columns} FROM {self.source} WHERE {self.condition} {more}"

    def create(self, table: str, columns: str) -> None:
        """Create a temporary table of such a query.

        Raises:
            QueryError: a value does not fit the user's SQL.
        """
        self._values(f"CREATE OR REPLACE TEMP TABLE {table} AS {self.query(columns)}")

    def values(self, columns: str, more: str = "") -> list[tuple[object, ...]]:
        """The rows of such a query, as `Tables.values` returns them.

        Raises:
            QueryError: a value does not fit the user's SQL.
        """
        return self._values(self.query(columns, more))

    def _values(self, sql: str) -> list[tuple[object, ...]]:
        try:
            return self._tables.values(sql)
        except (duckdb.DataError, duckdb.ProgrammingError) as error:
            raise self._tables.damage(error) or self.explained(error) from None

    def explained(self, error: Exception) -> Exception:
        """The error for the user, if the SQL that they gave may be its cause."""
        for option, sql in self._texts.items():
            if sql is not None:
                return _mistake(option, sql, error)
        return error

    def _check(self, option: str, sql: str) -> None:
        """Check that DuckDB understands a condition, or the expression of a cause.

        It must be valid both by itself, which `a) OR (b` is not, and in parentheses, which
        `a ORDER BY b` is not: other filters are combined with it.
        """
        if not sql.strip():
            raise QueryError(f"{option} is empty: give {_EXAMPLES[option]}")
        connection = self._tables.connection
        require_no_detour(
            self._tables, NAME, **{"condition" if option == "--where" else "columns": sql}
        )
        try:
            for part in (sql, f"(\n{sql}\n)"):
                query = f"SELECT 1 FROM {self.source} WHERE\n{part}\n"
                if option != "--where":
                    query = f"SELECT\n{part}\nAS cause FROM {self.source}"
                if len(connection.extract_statements(query)) != 1:
                    what = "condition" if option == "--where" else "expression"
                    raise QueryError(f"{option}: {sql!r} is more than one {what}")
                connection.execute(f"EXPLAIN {query}").fetchall()
        except duckdb.Error as error:
            raise self._tables.damage(error) or _mistake(option, sql, error) from None


def conditions(wanted: DeadLetterFilter) -> Iterator[str]:
    """The conditions of a filter, `where` included, which must have been checked."""
    for column in ("vhost", "queue", "reason", "exchange"):
        value = getattr(wanted, column)
        if value is not None:
            yield f"{column} = {text(value)}"
    if wanted.routing_key is not None:
        key = text(wanted.routing_key)
        yield f"(routing_key = {key} OR list_contains(routing_keys, {key}))"
    if wanted.end is not None:
        yield IS_LOST if wanted.end == "lost" else IS_DROPPED
    for operator, instant in ((">=", wanted.since), ("<", wanted.until)):
        if instant is not None:
            yield f'"at" {operator} CAST({text(instant.isoformat())} AS TIMESTAMPTZ)'
    if wanted.ids:
        yield f"({' OR '.join(map(_is_message, wanted.ids))})"
    for name, value in wanted.headers:
        yield _has_header(name, value)
    if wanted.cause is not None:
        yield f"{stripped(wanted.cause_source.expression())} = {text(wanted.cause)}"
    if wanted.where is not None:
        yield f"(\n{wanted.where}\n)"


def _is_message(key: MessageId) -> str:
    members = ("topic_number", '"partition"', '"offset"')
    parts = zip(members, key, strict=True)
    return f"({' AND '.join(f'message_id.{member} = {value}' for member, value in parts)})"


def _has_header(name: str, value: str | None) -> str:
    pointer = text(json_pointer(name))
    key = f"one.key = {text(name)}"
    if value is None:
        amqp = f"json_exists(headers, {pointer})"
    else:
        amqp = f"headers ->> {pointer} = {text(value)}"
        key = f"{key} AND one.value = encode({text(value)})"
        if value and not _ESCAPED.search(value):
            amqp = f"(contains(headers, {text(value)}) AND {amqp})"
    return f"(coalesce({amqp}, false) OR len(list_filter(kafka_headers, lambda one: {key})) > 0)"


def _mistake(option: str, sql: str, error: Exception) -> QueryError:
    hint = ""
    if isinstance(error, duckdb.ParserException) and re.search(r'(?<![\w"])at(?![\w"])', sql):
        hint = '; at is a reserved word of DuckDB: write the column in double quotes, "at"'
    elif isinstance(error, duckdb.BinderException) and "BLOB" in str(error):
        hint = "; body is bytes: decode(body) is its text"
    elif "STRUCT(topic_number" in str(error):
        hint = '; an id has members: message_id.topic_number, ."partition" and ."offset"'
    return QueryError(f"{option} {sql!r}: {one_line(error)}{hint}")
