"""A first look at the dead letters: how many, since when, which, and where they are now."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.dead_letters.groups import (
    CAUSE,
    DEFAULT_BY,
    Period,
    group_by,
    groups_query,
)
from streaming.queries.dead_letters.waiting import waiting_queues
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.ends import IS_DROPPED, IS_LOST
from streaming.queries.result import QueryResult, plain

TOP: Final = 5
"""How many of the largest groups a summary has."""

RECENT: Final = timedelta(hours=1)
"""How long before the last death a group counts as new."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class DeadLetterSummary(msgspec.Struct, frozen=True):
    """A first look at dead letters.

    Attributes:
        deaths: how many deaths there were; a message can die several times.
        first_seen, last_seen: the instants of the first and the last death; None if there is none.
        bytes: size of the bodies.
        lost, dropped: deaths of which no queue took the dead letter; see `streaming.queries.ends`.
        in_queues: dead letters that wait in a queue now, whatever else the filter asks for; those
            that were redriven, or are back where they first died, are messages again.
        queues: in how many queues messages died.
        groups: the largest groups by queue and reason.
        causes: the largest groups by cause.
        new: the groups by queue and reason whose first death is in the last hour before the last.
    """

    deaths: int
    first_seen: str | None
    last_seen: str | None
    bytes: int
    lost: int
    dropped: int
    in_queues: int
    queues: int
    groups: list[Row]
    causes: list[Row]
    new: list[Row]


def summary_of(tables: Tables, wanted: DeadLetterFilter) -> DeadLetterSummary:
    """Summarise the dead letters that a filter matches.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    selection = Selection(tables, wanted)
    [(deaths, first, last, size, lost, dropped, queues)] = selection.values(
        'count(*), epoch_us(min("at")), epoch_us(max("at")), '
        f"coalesce(sum(body_bytes), 0)::BIGINT, count(*) FILTER ({IS_LOST}), "
        f"count(*) FILTER ({IS_DROPPED}), "
        "count(DISTINCT (vhost, queue))"
    )
    groups: list[Row] = []
    causes: list[Row] = []
    if deaths:
        groups, causes = _groups(tables, selection, wanted, _count(first), _count(last))
    return DeadLetterSummary(
        deaths=_count(deaths),
        first_seen=_instant(first),
        last_seen=_instant(last),
        bytes=_count(size),
        lost=_count(lost),
        dropped=_count(dropped),
        in_queues=sum(
            one.count for one in waiting_queues(tables) if wanted.vhost in {None, one.vhost}
        ),
        queues=_count(queues),
        groups=[_without_news(one) for one in groups[:TOP]],
        causes=[_without_news(one) for one in causes[:TOP]],
        new=[_without_news(one) for one in groups if one["is_new"]][:TOP],
    )


def _groups(
    tables: Tables, selection: Selection, wanted: DeadLetterFilter, first_us: int, last_us: int
) -> tuple[list[Row], list[Row]]:
    """The groups by queue and reason, and those by cause, the largest first."""
    sets = [
        [group_by(name, wanted.cause_source) for name in names] for names in (DEFAULT_BY, (CAUSE,))
    ]
    since = _EPOCH + timedelta(microseconds=last_us) - RECENT
    sql = groups_query(selection, sets, Period.of(first_us, last_us, wanted), since)
    found: tuple[list[Row], list[Row]] = ([], [])
    for row in QueryResult(tables, sql, explain=selection.explained):
        is_group, is_cause = row.pop("is_in_0"), row.pop("is_in_1")
        for name in (CAUSE,) if is_group else DEFAULT_BY:
            del row[name]
        if not is_cause or row[CAUSE] is not None:
            found[is_cause].append(row)
    return found


def _instant(micros: object) -> str | None:
    if micros is None:
        return None
    return str(plain(_EPOCH + timedelta(microseconds=_count(micros))))


def _count(value: object) -> int:
    assert isinstance(value, int)
    return value


def _without_news(group: Row) -> Row:
    return {name: value for name, value in group.items() if name not in {"is_new", "new"}}
