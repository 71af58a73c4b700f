"""The deaths of a span and of the one before it, added up in one pass over the letters."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streaming.queries.duckdb_tables import Tables, text

MINUTE: Final = timedelta(minutes=1)
_MINUTE_US: Final = MINUTE // timedelta(microseconds=1)
_LETTERS: Final = ("vhost", "queue", "reason", "outcome", "cause", "at")


class RecentDeaths(NamedTuple):
    """Names of what `recent_deaths` has prepared.

    Attributes:
        counts: a table of `vhost`, `queue`, `reason`, `outcome`, `is_new` (of the span, not of the
            one before), `minutes_ago` (0: the minute before the end), `deaths`, and the `first` and
            `last` instant of them.
        letters: a view of the letters, and of others of the same files.
    """

    counts: str
    letters: str


def recent_deaths(tables: Tables, end: datetime, span: timedelta) -> RecentDeaths:
    """Add up the deaths of two spans before an instant, up to the cut.

    Args:
        span: the length of each; whole minutes.

    Raises:
        QueryError: there are no dead letters.
    """
    return tables.once(f"deaths {end} {span}", lambda: _add_up(tables, end, span))


def _add_up(tables: Tables, end: datetime, span: timedelta) -> RecentDeaths:
    begin = end - span
    first = begin - span
    files = tables.files("dead_letters", {"at": first}, inclusive=True)
    letters = tables.view(
        "dead_letters", files=files, columns=_LETTERS, view=tables.new_name("dead_letters")
    )
    counts = tables.new_name("recent_deaths")
    firsts, begins, ends = (
        f"CAST({text(one.isoformat())} AS TIMESTAMPTZ)" for one in (first, begin, end)
    )
    tables.connection.execute(
        f"""
        CREATE TEMP TABLE {counts} AS
        SELECT vhost, queue, reason, outcome, "at" >= {begins} AS is_new,
               (epoch_us({ends}) - epoch_us("at") - 1) // {_MINUTE_US} AS minutes_ago,
               count(*) AS deaths, min("at") AS "first", max("at") AS "last"
        FROM {letters} WHERE "at" >= {firsts} AND "at" < {ends}
        GROUP BY ALL
        """
    )
    return RecentDeaths(counts, letters)
