"""A first look at the dead letters: how many, since when, which, and where they are now."""

from datetime import timedelta
from typing import Any, Final

import msgspec

from streaming.queries.current_contents import prepare_contents
from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.dead_letters.groups import dead_letter_groups
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.result import plain

TOP: Final = 5
"""How many of the largest groups a summary has."""

RECENT: Final = timedelta(hours=1)
"""How long before the last death a group counts as new."""


class DeadLetterSummary(msgspec.Struct, frozen=True):
    """A first look at dead letters.

    Attributes:
        deaths: how many deaths there were; a message can die several times.
        first_seen, last_seen: the instants of the first and the last death; None if there is none.
        bytes: size of the bodies.
        lost: deaths of which no queue took the dead letter.
        in_queues: copies that a death made and that are in a queue now, of all queues.
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
    [(deaths, first, last, size, lost, queues)] = selection.values(
        'count(*), min("at"), max("at"), coalesce(sum(body_bytes), 0)::BIGINT, '
        "count(*) FILTER (len(targets) = 0), count(DISTINCT (vhost, queue))"
    )
    groups: list[Row] = []
    causes: list[Row] = []
    if deaths:
        assert last is not None
        since: Any = last
        groups = dead_letter_groups(tables, wanted, new_since=since - RECENT).rows()
        causes = dead_letter_groups(tables, wanted, ("cause",)).rows()
    return DeadLetterSummary(
        deaths=_count(deaths),
        first_seen=plain(first),
        last_seen=plain(last),
        bytes=_count(size),
        lost=_count(lost),
        in_queues=_in_queues(tables, wanted),
        queues=_count(queues),
        groups=[_without_news(one) for one in groups[:TOP]],
        causes=[one for one in causes if one["cause"] is not None][:TOP],
        new=[_without_news(one) for one in groups if one["is_new"]][:TOP],
    )


def _count(value: object) -> int:
    assert isinstance(value, int)
    return value


def _without_news(group: Row) -> Row:
    return {name: value for name, value in group.items() if name not in {"is_new", "new"}}


def _in_queues(tables: Tables, wanted: DeadLetterFilter) -> int:
    contents = prepare_contents(tables)
    [(count,)] = tables.values(
        f"SELECT count(*) FROM ({contents}) "
        "WHERE parent_copy_id IS NOT NULL AND vhost = coalesce(?, vhost)",
        [wanted.vhost],
    )
    return int(count)
