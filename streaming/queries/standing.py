"""How things stand: deaths by the minute, and dead letters that wait."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.current_contents import prepare_contents
from streaming.queries.duckdb_tables import Row, Tables, iso

MINUTE: Final = timedelta(minutes=1)
_MINUTE_US: Final = MINUTE // timedelta(microseconds=1)


class WaitingQueue(msgspec.Struct, frozen=True):
    """A queue in which dead letters wait, ready or unacked, and since when the oldest does."""

    vhost: str
    queue: str
    count: int
    oldest_at: str


def waiting_queues(tables: Tables) -> list[WaitingQueue]:
    """List the queues in which dead letters wait, the longest waiting first."""
    contents = prepare_contents(tables)
    found = tables.rows(
        f"""
        SELECT vhost, queue, count(*) AS count, min(enqueued_at) AS oldest_at FROM ({contents})
        WHERE parent_copy_id IS NOT NULL GROUP BY ALL ORDER BY oldest_at, vhost, queue
        """
    )
    return [WaitingQueue(**{**row, "oldest_at": iso(row["oldest_at"])}) for row in found]


def deaths_by_minute(tables: Tables, end: datetime, minutes: int) -> list[Row]:
    """Count deaths by minute before an instant, reason, and whether a queue took the letter.

    Returns:
        Rows with `minute` (0 is the first), `reason`, `deaths` and `lost`; minutes without deaths
        have none.
    """
    begin = end - minutes * MINUTE
    files = tables.files("dead_letters", {"at": begin}, inclusive=True)
    columns = ["vhost", "at", "reason", "targets"]
    view = tables.view(
        "dead_letters", files=files, columns=columns, view=tables.new_name("dead_letters")
    )
    return tables.rows(
        f"""
        SELECT (epoch_us("at") - epoch_us(CAST(? AS TIMESTAMPTZ))) // {_MINUTE_US} AS minute,
               reason, count(*) AS deaths, count(*) FILTER (len(targets) = 0) AS lost
        FROM {view} WHERE "at" >= CAST(? AS TIMESTAMPTZ) AND "at" < CAST(? AS TIMESTAMPTZ)
        GROUP BY ALL ORDER BY ALL
        """,
        [begin.isoformat(), begin.isoformat(), end.isoformat()],
    )
