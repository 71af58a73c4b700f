"""Dead letters in groups: by queue, reason, exchange, key, header or cause."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streaming.queries.dead_letters.causes import CauseSource, stripped
from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import QueryError, Tables, quoted, text
from streaming.queries.result import QueryResult
from topology.suggestions import did_you_mean

COLUMNS: Final = ("vhost", "queue", "reason", "exchange", "routing_key", "outcome")
"""The columns of `dead_letters` that groups can be by."""

CAUSE: Final = "cause"
HEADER: Final = "header:"
DEFAULT_BY: Final = ("queue", "reason")

TREND_PARTS: Final = 12
"""Into how many equal parts of the period the trend divides the deaths."""

_REDRIVEN: Final = "contains(headers, '\"x-redrive-count\":')"
"""A quote inside a JSON text has a backslash, so this finds only the name of a header."""


class GroupBy(NamedTuple):
    """One attribute that dead letters are grouped by, and its expression in SQL."""

    name: str
    expression: str


def group_by(name: str, source: CauseSource) -> GroupBy:
    """Read the name of an attribute: a column, `header:NAME` or `cause`.

    Raises:
        QueryError: there is no such attribute.
    """
    if name == CAUSE:
        return GroupBy(name, stripped(source.expression()))
    if name.startswith(HEADER) and name != HEADER:
        return GroupBy(name, CauseSource(header=name.removeprefix(HEADER)).expression())
    if name in COLUMNS:
        return GroupBy(name, name)
    known = (*COLUMNS, CAUSE, f"{HEADER}NAME")
    hint = did_you_mean(re.sub("^key$", "routing_key", name), known)
    raise QueryError(f"--by: there is no attribute {name!r}{hint}: {', '.join(known)}")


def dead_letter_groups(
    tables: Tables,
    wanted: DeadLetterFilter,
    by: Sequence[str] = DEFAULT_BY,
    new_since: datetime | None = None,
) -> QueryResult:
    """Group dead letters, the largest group first.

    Besides the attributes a group has `deaths`; `first_seen` and `last_seen`; `redriven`, how many
    of them had been redriven before they died; `lost`, how many no queue took; and `trend`, the
    deaths in each of twelve equal parts of the period.

    Args:
        by: attributes; see `group_by`.
        new_since: adds `is_new`, whether a group had no deaths before this instant, and `new`, its
            deaths since.

    Raises:
        QueryError: there is no such table or attribute, or `where` is not a valid condition.
    """
    if not by:
        raise QueryError("--by is empty: give attributes such as queue,reason")
    attributes = [group_by(name, wanted.cause_source) for name in dict.fromkeys(by)]
    selection = Selection(tables, wanted)
    [(first, last)] = selection.values('epoch_us(min("at")), epoch_us(max("at"))')
    start, part_us = _parts(first, last, wanted)
    names = ", ".join(quoted(one.name) for one in attributes)
    chosen = ", ".join(f"{one.expression} AS {quoted(one.name)}" for one in attributes)
    part = f"least((epoch_us(seen_at) - {start}) // {part_us}, {TREND_PARTS - 1})"
    counts = ", ".join(f"count(*) FILTER (part = {number})" for number in range(TREND_PARTS))
    newest = ""
    if new_since is not None:
        moment = f"CAST({text(new_since.isoformat())} AS TIMESTAMPTZ)"
        newest = (
            f"min(seen_at) >= {moment} AS is_new, count(*) FILTER (seen_at >= {moment}) AS new, "
        )
    letters = selection.query(
        f'{chosen}, "at" AS seen_at, {_REDRIVEN} AS is_redriven, len(targets) = 0 AS is_lost'
    )
    sql = f"""
        SELECT {names}, count(*) AS deaths, min(seen_at) AS first_seen, max(seen_at) AS last_seen,
               {newest}count(*) FILTER (is_redriven) AS redriven,
               count(*) FILTER (is_lost) AS lost, [{counts}] AS trend
        FROM (SELECT *, {part} AS part FROM ({letters})) GROUP BY {names}
        ORDER BY deaths DESC, {names}
    """
    return QueryResult(tables, sql, explain=selection.explained)


def _parts(first: Any, last: Any, wanted: DeadLetterFilter) -> tuple[int, int]:
    """The beginning of the period and the length of its parts, in epoch microseconds."""
    begin = first if wanted.since is None else _micros(wanted.since)
    end = last if wanted.until is None else _micros(wanted.until)
    if begin is None or end is None:
        return 0, 1
    return begin, max((end - begin + TREND_PARTS) // TREND_PARTS, 1)


def _micros(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)
