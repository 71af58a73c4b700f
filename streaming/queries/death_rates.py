"""How things stand: deaths by the minute.

What counts as lost, old or a burst is the same here, for the verdict of the console, and in the
shipped alert rules.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from streaming.queries.duckdb_tables import Row, Tables, text

MINUTE: Final = timedelta(minutes=1)
LOST: Final = (
    *("no_route", "refused", "cycle", "rerouted_before", "cascade_limit", "strategy_changed"),
)
"""Outcomes of deaths that are losses: a dead-letter exchange was to take the letter."""

LOST_WITHOUT_EXCHANGE: Final = ("rejected", "delivery_limit")
"""Reasons of deaths that are losses without a dead-letter exchange; others are how a queue without
one is meant to work: what expires, or does not fit, is dropped."""

OLD_S: Final = 4 * 3600.0
"""A dead letter that waits longer needs a look."""

BURST_LETTERS: Final = 50
BURST: Final = 4
"""A burst: at least 50 deaths in five minutes, and four times as many as is usual."""

_MINUTE_US: Final = MINUTE // timedelta(microseconds=1)


def pattern_of(names: Sequence[str]) -> str:
    """A regular expression, of Python and DuckDB, for names with `*`, such as quiet queues."""
    each = (".*".join(map(re.escape, name.split("*"))) for name in names)
    return f"(?s:{'|'.join(each)})"


def deaths_by_minute(
    tables: Tables,
    end: datetime,
    minutes: int,
    *,
    vhost: str | None = None,
    quiet: Sequence[str] = (),
) -> list[Row]:
    """Count deaths by minute before an instant, reason, and whether the letter is lost.

    Args:
        vhost: count only its deaths.
        quiet: names of queues, or patterns with `*`, whose deaths are part of a design.

    Returns:
        Rows with `minute` (0 is the first), `reason`, `deaths`, of them `lost` and `dropped` (both
        reached no queue, the latter as declared), and `loud`: those in queues that are not quiet,
        as are all that are lost. Minutes without deaths have none.
    """
    begin = end - minutes * MINUTE
    files = tables.files("dead_letters", {"at": begin}, inclusive=True)
    columns = ["vhost", "queue", "at", "reason", "outcome"]
    view = tables.view(
        "dead_letters", files=files, columns=columns, view=tables.new_name("dead_letters")
    )
    lost, without = (", ".join(map(text, each)) for each in (LOST, LOST_WITHOUT_EXCHANGE))
    is_lost = f"(outcome IN ({lost}) OR (outcome = 'no_exchange' AND reason IN ({without})))"
    is_quiet = f"regexp_full_match(queue, {text(pattern_of(quiet))})" if quiet else "false"
    of_vhost = "true" if vhost is None else f"vhost = {text(vhost)}"
    return tables.rows(
        f"""
        SELECT (epoch_us("at") - epoch_us(CAST(? AS TIMESTAMPTZ))) // {_MINUTE_US} AS minute,
               reason, count(*) AS deaths,
               count(*) FILTER (NOT {is_quiet}) AS loud,
               count(*) FILTER ({is_lost} AND NOT {is_quiet}) AS lost,
               count(*) FILTER (outcome = 'no_exchange' AND NOT ({is_lost} AND NOT {is_quiet}))
                   AS dropped
        FROM {view} WHERE "at" >= CAST(? AS TIMESTAMPTZ) AND "at" < CAST(? AS TIMESTAMPTZ)
        AND {of_vhost} GROUP BY ALL ORDER BY ALL
        """,
        [begin.isoformat(), begin.isoformat(), end.isoformat()],
    )
