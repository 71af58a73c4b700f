"""List and count dead letters."""

from typing import Any, Final, Literal

import msgspec

from streaming.queries.dead_letters.filters import NAME, DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import Row, Tables, iso, quoted, text
from streaming.queries.message_attributes import ENCODED, MessageId, plain_attributes, present
from streaming.queries.result import QueryResult

KEY: Final = "vhost, lane, seq"
"""The columns that name a dead letter."""

_MAX_KEYS: Final = 1_000
"""The most rows whose keys are listed in a query."""


def dead_letters(tables: Tables, wanted: DeadLetterFilter) -> QueryResult:
    """Ask for dead letters with all columns; without a limit or an order they are in none.

    With a limit, the rows are found by the few columns that the filter and the order need. Only
    then are their other columns read.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    selection = Selection(tables, wanted)
    order = order_of(wanted)
    if wanted.limit is None or wanted.limit > _MAX_KEYS:
        limit = "" if wanted.limit is None else f"LIMIT {wanted.limit}"
        ordered = "" if wanted.order is None and not limit else f"{order} {limit}"
        sql = selection.query("*", ordered)
    else:
        found = selection.values(KEY, f"{order} LIMIT {wanted.limit}")
        sql = f"SELECT * FROM {selection.source} WHERE {is_one_of(found)} {order}"
    return QueryResult(tables, sql, encode=ENCODED, plain=plain_row, explain=selection.explained)


def list_dead_letters(tables: Tables, wanted: DeadLetterFilter) -> list[Row]:
    """List dead letters as `plain_row` returns them, the latest first.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    if wanted.order is None:
        wanted = msgspec.structs.replace(wanted, order=("at", True))
    return dead_letters(tables, wanted).rows()


def count_dead_letters(tables: Tables, wanted: DeadLetterFilter) -> int:
    """Count the dead letters that a filter matches, whatever its limit."""
    [(count,)] = Selection(tables, wanted).values("count(*)")
    assert isinstance(count, int)
    return count


def order_of(wanted: DeadLetterFilter) -> str:
    """The order of a filter, in which equal instants have one too."""
    first = ""
    if wanted.order is not None:
        column, reverse = wanted.order
        first = f"{quoted(column)} {'DESC' if reverse else 'ASC'} NULLS LAST, "
    return f'ORDER BY {first}"at" DESC, vhost, lane, seq DESC'


def is_one_of(keys: list[tuple[object, ...]]) -> str:
    """A condition for rows with these keys; the list of numbers lets Parquet skip row groups."""
    if not keys:
        return "false"
    numbers = ", ".join(str(seq) for _vhost, _lane, seq in keys)
    places = {(str(vhost), lane) for vhost, lane, _seq in keys}
    if len(places) == 1:
        [(vhost, lane)] = places
        return f"seq IN ({numbers}) AND vhost = {text(vhost)} AND lane = {lane}"
    rows = ", ".join(f"({text(str(vhost))}, {lane}, {seq})" for vhost, lane, seq in keys)
    return f"seq IN ({numbers}) AND ({KEY}) IN ({rows})"


def names_of_deaths(tables: Tables, column: Literal["queue", "exchange"]) -> list[str]:
    """The names of the queues, or the exchanges, of dead letters."""
    view = tables.view(NAME, columns=[column], view=tables.new_name(NAME))
    sql = f"SELECT DISTINCT {column} FROM {view} WHERE {column} IS NOT NULL ORDER BY ALL"
    return [name for (name,) in tables.values(sql)]


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
