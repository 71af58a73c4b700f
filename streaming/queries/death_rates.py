"""How things stand: deaths by the minute.

What counts as lost, old or a burst is the same here, for the verdict of the console, and in the
shipped alert rules.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from streaming.queries.duckdb_tables import Row, Tables, text
from streaming.queries.ends import IS_LOST
from streaming.queries.recent_deaths import MINUTE, recent_deaths

OLD_S: Final = 4 * 3600.0
"""A dead letter that waits longer needs a look."""

_IS_FULL: Final = "(outcome = 'no_exchange' AND reason = 'maxlen')"
"""The condition in SQL of what a full queue drops, because it has no place for its dead letters."""

BURST_LETTERS: Final = 50
BURST: Final = 4
"""A burst: at least 50 deaths in five minutes, and four times as many as is usual."""


def pattern_of(names: Sequence[str]) -> str:
    """A regular expression, of Python and DuckDB, for names with `*`, such as quiet queues."""
    each = (".*".join(map(re.escape, name.split("*"))) for name in names)
    return f"(?s:{'|'.join(each)})"


def is_quiet(names: Sequence[str]) -> str:
    """The condition in SQL that a queue has one of these names."""
    return f"regexp_full_match(queue, {text(pattern_of(names))})" if names else "false"


def dropped_by_queue(tables: Tables, end: datetime, span: timedelta) -> dict[tuple[str, str], int]:
    """How many messages full queues without a place for their dead letters dropped in a span.

    Returns:
        By vhost and queue; queues that dropped none are absent.
    """
    begin = end - span
    files = tables.files("dead_letters", {"at": begin}, inclusive=True)
    columns = ["vhost", "queue", "at", "reason", "outcome"]
    view = tables.view(
        "dead_letters", files=files, columns=columns, view=tables.new_name("dead_letters")
    )
    found = tables.values(
        f"""
        SELECT vhost, queue, count(*) FROM {view} WHERE {_IS_FULL}
        AND "at" >= CAST(? AS TIMESTAMPTZ) AND "at" <= CAST(? AS TIMESTAMPTZ) GROUP BY ALL
        """,
        [begin.isoformat(), end.isoformat()],
    )
    return {(vhost, queue): count for vhost, queue, count in found}


def latest_death(tables: Tables, end: datetime, vhost: str | None = None) -> datetime | None:
    """When a message died last before an instant; None if none has."""
    columns = ["vhost", "at"]
    view = tables.view("dead_letters", columns=columns, view=tables.new_name("dead_letters"))
    of_vhost = "true" if vhost is None else f"vhost = {text(vhost)}"
    [(found,)] = tables.values(
        f'SELECT max("at") FROM {view} WHERE "at" < CAST(? AS TIMESTAMPTZ) AND {of_vhost}',
        [end.isoformat()],
    )
    at: datetime | None = found
    return at


def deaths_by_minute(
    tables: Tables,
    end: datetime,
    minutes: int,
    *,
    vhost: str | None = None,
    quiet: Sequence[str] = (),
    not_lost: Sequence[str] = (),
) -> list[Row]:
    """Count deaths by minute before an instant, reason, and whether the letter is lost.

    Args:
        vhost: count only its deaths.
        quiet: names of queues, or patterns with `*`, whose deaths are part of a design.
        not_lost: the same of queues whose letters are meant to reach no queue.

    Returns:
        Rows with `minute` (0 is the first), `reason`, `deaths`, of them `lost` and `dropped` (both
        reached no queue, the latter as declared), and `loud`: those in queues that are not quiet.
        Minutes without deaths have none.
    """
    counts = recent_deaths(tables, end, minutes * MINUTE).counts
    of_quiet, is_lost = is_quiet(quiet), f"({IS_LOST} AND NOT {is_quiet(not_lost)})"
    of_vhost = "true" if vhost is None else f"vhost = {text(vhost)}"
    found = tables.values(
        f"""
        SELECT {minutes} - 1 - minutes_ago AS minute, reason, sum(deaths)::BIGINT,
               coalesce(sum(deaths) FILTER (NOT {of_quiet}), 0)::BIGINT,
               coalesce(sum(deaths) FILTER ({is_lost}), 0)::BIGINT,
               coalesce(sum(deaths) FILTER (outcome = 'no_exchange' AND NOT {is_lost}), 0)::BIGINT
        FROM {counts} WHERE is_new AND {of_vhost} GROUP BY minute, reason ORDER BY minute, reason
        """
    )
    names = ("minute", "reason", "deaths", "loud", "lost", "dropped")
    return [dict(zip(names, row, strict=True)) for row in found]
