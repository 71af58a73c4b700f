"""What each queue holds, added up in one pass over the copies."""

import msgspec

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.duckdb_tables import Tables, iso


class HeldByQueue(msgspec.Struct, frozen=True):
    """The copies in one queue, ready and unacked; queues without copies have none of these.

    Attributes:
        bytes: size of the bodies; `ready_bytes`: of those ready.
        oldest_at: when the oldest copy entered.
        made: how many a death or a redrive has made; most are dead letters.
        oldest_made_at: when the oldest of them entered; None: there are none.
        least_parent: the least number of a copy that they were made of.
    """

    vhost: str
    queue: str
    ready: int
    unacked: int
    bytes: int
    ready_bytes: int
    oldest_at: str | None
    made: int
    oldest_made_at: str | None
    least_parent: int | None


def held_by_queue(tables: Tables) -> list[HeldByQueue]:
    """Add up what is in the queues at the last batch, or at the cut, by vhost and queue.

    Raises:
        QueryError: the cut lies before everything that the tables still know.
    """
    return tables.once("held by queue", lambda: _add_up(tables))


def _add_up(tables: Tables) -> list[HeldByQueue]:
    found = tables.rows(
        f"""
        SELECT vhost, queue, coalesce(sum(copies) FILTER (state = 'ready'), 0)::BIGINT AS ready,
               coalesce(sum(copies) FILTER (state = 'unacked'), 0)::BIGINT AS unacked,
               coalesce(sum(size), 0) AS bytes,
               coalesce(sum(size) FILTER (state = 'ready'), 0) AS ready_bytes,
               min(first_at) AS oldest_at,
               coalesce(sum(copies) FILTER (is_made), 0)::BIGINT AS made,
               min(first_at) FILTER (is_made) AS oldest_made_at,
               min(least_parent) AS least_parent
        FROM (  -- grouped by the conditions: evaluating them for each copy takes longer
            SELECT vhost, queue, state, parent_copy_id IS NOT NULL AS is_made,
                   count(*) AS copies, sum(body_bytes) AS size, min(enqueued_at) AS first_at,
                   min(parent_copy_id) AS least_parent
            FROM ({prepare_contents(tables)}) GROUP BY ALL)
        GROUP BY vhost, queue
        """
    )
    return [
        HeldByQueue(
            **{
                **row,
                "oldest_at": iso(row["oldest_at"]),
                "oldest_made_at": iso(row["oldest_made_at"]),
            }
        )
        for row in found
    ]
