"""Dead letters in groups: by queue, reason, exchange, key, header or cause."""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streaming.queries.dead_letters.cause_texts import CauseSource, stripped_column
from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import QueryError, Tables, quoted, text
from streaming.queries.ends import IS_DROPPED, IS_LOST
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
    """One attribute that dead letters are grouped by.

    Attributes:
        expression: its expression in SQL on the columns of `dead_letters`.
        is_cause: whether the expression gives the text of a cause, which is stripped afterwards.
    """

    name: str
    expression: str
    is_cause: bool = False

    def grouped(self) -> str:
        """The expression on a column with its name that holds the text."""
        return stripped_column(quoted(self.name)) if self.is_cause else quoted(self.name)


def group_by(name: str, source: CauseSource) -> GroupBy:
    """Read the name of an attribute: a column, `header:NAME` or `cause`.

    Raises:
        QueryError: there is no such attribute.
    """
    if name == CAUSE:
        return GroupBy(name, source.expression(), is_cause=True)
    if name.startswith(HEADER) and name != HEADER:
        return GroupBy(name, CauseSource(header=name.removeprefix(HEADER)).expression())
    if name in COLUMNS:
        return GroupBy(name, name)
    known = (*COLUMNS, CAUSE, f"{HEADER}NAME")
    hint = did_you_mean(re.sub("^key$", "routing_key", name), known)
    raise QueryError(f"there is no attribute {name!r}{hint}: {', '.join(known)}")


def dead_letter_groups(
    tables: Tables,
    wanted: DeadLetterFilter,
    by: Sequence[str] = DEFAULT_BY,
    new_since: datetime | None = None,
    *,
    has_place: bool = False,
    waiting: str | None = None,
) -> QueryResult:
    """Group dead letters, the largest group first.

    Besides the attributes a group has `deaths`; `first_seen` and `last_seen`; `redriven`, how many
    of them had been redriven before they died; `lost` and `dropped`, how many no queue took, see
    `streaming.queries.ends`; and `trend`, the deaths in each of twelve equal parts of the period.

    Args:
        by: attributes; see `group_by`.
        new_since: adds `is_new`, whether a group had no deaths before this instant, and `new`, its
            deaths since.
        has_place: adds `place`, the vhost and the queue of the first death of a group.
        waiting: a table of deaths, see `prepare_waiting_deaths`; adds `waits`, whether a death of
            the group is among them.

    Raises:
        QueryError: there is no such table or attribute, or `where` is not a valid condition.
    """
    if not by:
        raise QueryError("no attribute is given: name some, such as queue,reason")
    attributes = [group_by(name, wanted.cause_source) for name in dict.fromkeys(by)]
    selection = Selection(tables, wanted)
    [(first, last)] = selection.values('epoch_us(min("at")), epoch_us(max("at"))')
    period = Period.of(first, last, wanted)
    sql = groups_query(
        selection, [attributes], period, new_since, has_place=has_place, waiting=waiting
    )
    return QueryResult(tables, sql, explain=selection.explained)


class Period(NamedTuple):
    """What the trend divides: its beginning and the length of its parts, in epoch microseconds."""

    start_us: int
    part_us: int

    @classmethod
    def of(cls, first_us: Any, last_us: Any, wanted: DeadLetterFilter) -> "Period":
        """The period of a filter, or from the first death to the last one; None: there is none."""
        begin = first_us if wanted.since is None else _micros(wanted.since)
        end = last_us if wanted.until is None else _micros(wanted.until)
        if begin is None or end is None:
            return cls(0, 1)
        return cls(begin, max((end - begin + TREND_PARTS) // TREND_PARTS, 1))


def groups_query(
    selection: Selection,
    sets: Sequence[Sequence[GroupBy]],
    period: Period,
    new_since: datetime | None = None,
    *,
    has_place: bool = False,
    waiting: str | None = None,
) -> str:
    """The query of the groups by each set of attributes; the letters are read once for all sets.

    A row has the attributes of all sets, and null for those that its own set does not have. With
    several sets, `is_in_NUMBER` says whether the row belongs to the set of that number.
    """
    attributes = {one.name: one for chosen in sets for one in chosen}
    names = ", ".join(map(quoted, attributes))
    grouped = [", ".join(quoted(one.name) for one in chosen) for chosen in sets]
    flags = ""
    if len(sets) > 1:
        flags = ", ".join(
            f"grouping({chosen}) = 0 AS is_in_{number}" for number, chosen in enumerate(grouped)
        )
        flags = f"{flags}, "
    moment = None if new_since is None else f"CAST({text(new_since.isoformat())} AS TIMESTAMPTZ)"
    newest = "" if moment is None else f"min(first) >= {moment} AS is_new, {_sum('new')} AS new, "
    place = ""
    if has_place:
        place = "arg_min(place, first) AS place, "
    if waiting is not None:
        place += "bool_or(waits) AS waits, "
    trend = ", ".join(_sum("deaths", f"part = {number}") for number in range(TREND_PARTS))
    counts = _counts_by_part(
        selection, attributes.values(), period, moment, has_place=has_place, waiting=waiting
    )
    return f"""
        SELECT {flags}{names}, {_sum("deaths")} AS deaths, min(first) AS first_seen,
               max(last) AS last_seen, {newest}{place}{_sum("redriven")} AS redriven,
               {_sum("lost")} AS lost, {_sum("dropped")} AS dropped, [{trend}] AS trend
        FROM ({counts})
        GROUP BY GROUPING SETS ({", ".join(f"({chosen})" for chosen in grouped)})
        ORDER BY deaths DESC, {names}
    """


def _counts_by_part(
    selection: Selection,
    attributes: Collection[GroupBy],
    period: Period,
    moment: str | None,
    *,
    has_place: bool,
    waiting: str | None,
) -> str:
    """The query of the deaths with the same attributes in the same part of the period.

    These are few, so counting them for each set and each part of the trend costs nearly nothing.
    """
    part = f'least((epoch_us("at") - {period.start_us}) // {period.part_us}, {TREND_PARTS - 1})'
    columns = [f"{one.expression} AS {quoted(one.name)}" for one in attributes]
    columns += ['"at" AS seen_at', f"{_REDRIVEN} AS is_redriven", f"{IS_LOST} AS is_lost"]
    columns.append(f"{IS_DROPPED} AS is_dropped")
    place = ""
    if has_place:
        columns.append("{'vhost': vhost, 'queue': queue} AS of_death")
        place = "arg_min(of_death, seen_at) AS place, "
    if waiting is not None:
        columns.append(f"{is_among(waiting)} AS is_waiting")
        place += "bool_or(is_waiting) AS waits, "
    letters = selection.query(", ".join([*columns, f"{part} AS part"]))
    names = ", ".join(f"{one.grouped()} AS {quoted(one.name)}" for one in attributes)
    new = "" if moment is None else f"count(*) FILTER (seen_at >= {moment}) AS new, "
    return f"""
        SELECT {names}, part, count(*) AS deaths, min(seen_at) AS first, max(seen_at) AS last,
               {new}{place}count(*) FILTER (is_redriven) AS redriven,
               count(*) FILTER (is_lost) AS lost, count(*) FILTER (is_dropped) AS dropped
        FROM ({letters}) GROUP BY ALL
    """


def is_among(deaths: str) -> str:
    """A condition for the deaths in a table of theirs, by `vhost`, `lane` and `copy_id`."""
    return f"(vhost, lane, copy_id) IN (FROM {deaths} SELECT (vhost, lane, copy_id))"


def _sum(column: str, condition: str = "true") -> str:
    """The sum of a count as a BIGINT; DuckDB sums to a HUGEINT, and no rows to null."""
    return f"coalesce(sum({column}) FILTER ({condition}), 0)::BIGINT"


def _micros(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)
