"""What changed in a queue between two instants: which copies entered, which left, and why.

contents at the first cut  +  entered  -  left  =  contents at the second cut
"""

from typing import Final

from streaming.queries.as_of.contents import EVENTS, LEAVING
from streaming.queries.as_of.snapshots import events_after_snapshot, snapshot_contents
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Row, Tables, iso, text
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
    _create_held_before(tables)
    tables.cut = last
    files = tables.files(EVENTS, {"batch_id": first.batch_id})
    tables.view(EVENTS, files=files, columns=_COLUMNS)
    before = first.condition(EVENTS)
    leaving = ", ".join(map(text, LEAVING))
    found = tables.rows(
        f"""
        WITH stretch AS (FROM {EVENTS} WHERE NOT coalesce({before}, false) AND kind <> 'batch'),
        changes AS (
            FROM stretch WHERE queue = ? AND vhost = coalesce(?, vhost) AND (kind = 'enqueued' OR
            (kind IN ({leaving}) AND copy_id <> seq))),
        settled AS (  -- a held copy has left before it dies
            FROM changes WHERE kind = 'enqueued' OR kind = 'held' OR
            (vhost, lane, copy_id) NOT IN (
                SELECT (vhost, lane, copy_id) FROM changes WHERE kind = 'held'
                UNION ALL SELECT (vhost, lane, copy_id) FROM held_before)),
        deaths AS (
            SELECT vhost, lane, copy_id AS parent_copy_id, any_value(queue) AS from_queue
            FROM stretch WHERE kind IN ('died', 'rerouted', 'held', 'redriven', 'republished')
            GROUP BY ALL)
        SELECT "at", CASE kind WHEN 'enqueued' THEN 'entered' ELSE 'left' END AS change,
               CASE WHEN kind = 'enqueued' AND parent_copy_id IS NULL THEN 'published'
                    WHEN kind = 'enqueued' AND parent_copy_id IN (SELECT copy_id FROM stretch
                        WHERE kind IN ('redriven', 'republished')) THEN 'redriven'
                    WHEN kind = 'enqueued' THEN 'dead_lettered'
                    WHEN kind IN ('died', 'held', 'rerouted') THEN coalesce(reason, kind)
                    ELSE kind END AS why,
               message_id, routing_key, body_bytes,
               CASE kind WHEN 'enqueued' THEN deaths.from_queue END AS from_queue,
               "user", channel, settled.vhost, settled.lane, seq, copy_id, batch_id
        FROM settled LEFT JOIN deaths USING (vhost, lane, parent_copy_id)
        ORDER BY "at", settled.vhost, settled.lane, seq
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


def _create_held_before(tables: Tables) -> None:
    """Create the table of copies that were held at some time before the cut, since the snapshot.

    A held copy never enters a queue again, so those that ended before the cut do no harm.

    Raises:
        QueryError: the tables no longer know the cut.
    """
    snapshot = events_after_snapshot(tables, ["vhost", "lane", "copy_id", "kind"], "later")
    held = "SELECT vhost, lane, copy_id FROM later WHERE kind = 'held'"
    if snapshot is not None:
        stored = snapshot_contents(tables, snapshot, held=True)
        held = f"{held} UNION ALL SELECT vhost, lane, copy_id FROM {stored} WHERE state = 'held'"
    tables.connection.execute(f"CREATE OR REPLACE TEMP TABLE held_before AS {held}")
