"""What changed in a queue between two instants: which copies entered, which left, and why.

contents at the first cut  +  entered  -  left  =  contents at the second cut
"""

from typing import Final

from streaming.queries.as_of.contents import EVENTS
from streaming.queries.as_of.crossings import ENTERED, LEFT, crossings
from streaming.queries.as_of.snapshots import snapshot_before
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Row, Tables, iso
from streaming.queries.message_attributes import MessageId

_COLUMNS: Final = (
    *("batch_id", "vhost", "lane", "seq", "at", "kind", "message_id", "copy_id"),
    *("parent_copy_id", "queue", "reason", "routing_key", "body_bytes", "user", "channel"),
)


def queue_changes(
    tables: Tables, queue: str, first: Cut, last: Cut, vhost: str | None = None
) -> list[Row]:
    """List what entered and left a queue after one cut and up to another, in order.

    Returns:
        Rows with `change` (entered or left) and `why`: `published`, `dead_lettered`, or how it
        left, for deaths the reason. `from_queue` is the queue where its parent died.

    Raises:
        QueryError: the tables no longer know the first cut.
    """
    tables.cut = first
    since = snapshot_before(tables)
    tables.cut = last
    files = tables.files(EVENTS, {"batch_id": first.batch_id})
    tables.view(EVENTS, files=files, columns=_COLUMNS)
    stretch = tables.new_name("stretch")
    before = first.condition(EVENTS)
    tables.define(stretch, f"FROM {EVENTS} WHERE NOT coalesce({before}, false) AND kind <> 'batch'")
    found = tables.rows(
        f"""
        WITH crossed AS (
            SELECT *, {ENTERED} AS entered FROM {crossings(tables, stretch, since)}
            WHERE queue = ? AND vhost = coalesce(?, vhost) AND ({ENTERED} OR {LEFT})),
        moves AS (  -- of a letter that was moved, also its earlier dead letters may be there
            SELECT vhost, lane, copy_id AS parent_copy_id, min(seq) AS moved_seq
            FROM {stretch} WHERE kind IN ('redriven', 'republished') GROUP BY ALL),
        deaths AS (
            SELECT vhost, lane, copy_id AS parent_copy_id, any_value(queue) AS from_queue
            FROM {stretch} WHERE kind IN ('died', 'rerouted', 'held', 'redriven', 'republished')
            GROUP BY ALL)
        SELECT "at", CASE WHEN entered THEN 'entered' ELSE 'left' END AS change,
               CASE WHEN entered AND parent_copy_id IS NULL THEN 'published'
                    WHEN entered AND moved_seq < seq THEN 'redriven'
                    WHEN entered THEN 'dead_lettered'
                    WHEN kind IN ('died', 'held', 'rerouted') THEN coalesce(reason, kind)
                    ELSE kind END AS why,
               message_id, routing_key, body_bytes,
               CASE WHEN entered THEN deaths.from_queue END AS from_queue,
               "user", channel, crossed.vhost, crossed.lane, seq, copy_id, batch_id
        FROM crossed LEFT JOIN deaths USING (vhost, lane, parent_copy_id)
            LEFT JOIN moves USING (vhost, lane, parent_copy_id)
        ORDER BY "at", crossed.vhost, crossed.lane, seq
        """,
        [queue, vhost],
    )
    return [
        {
            **row,
            "at": iso(row["at"]),
            "message_id": str(MessageId.of(row["message_id"]) or "") or None,
        }
        for row in found
    ]
