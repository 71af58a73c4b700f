"""What a live view shows of the queues: what they hold, who consumes, and what came and went."""

from typing import Final

import msgspec

from streaming.queries.as_of.crossings import COLUMNS, ENTERED, LEFT, crossings
from streaming.queries.as_of.snapshots import last_snapshot_before
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import QueueDepth, list_queues
from streaming.queries.vhosts.clients import consumer_counts

_LAST_BATCH: Final = """
    SELECT arg_max(query_id, {'at': "at", 'batch_id': batch_id}) AS query_id,
           max(batch_id) AS batch_id
    FROM events WHERE kind = 'batch'
"""


class QueueTraffic(msgspec.Struct, frozen=True):
    """Copies that entered and left a queue."""

    entered: int = 0
    left: int = 0


class QueueActivity(msgspec.Struct, frozen=True):
    """The queues after the last batch.

    Attributes:
        batch_id: the last batch; -1 if there is none.
        consumers: by vhost and queue; queues without consumers are absent.
        traffic: by vhost and queue, in the batches after the one that was asked about.
    """

    batch_id: int
    queues: list[QueueDepth]
    consumers: dict[tuple[str, str], int]
    traffic: dict[tuple[str, str], QueueTraffic]


def queue_activity(tables: Tables, after_batch: int | None) -> QueueActivity:
    """Query the queues.

    Args:
        after_batch: the batches after this one count as traffic; None: no batch does.
    """
    queues = list_queues(tables)
    tables.view("events", columns=["query_id", "batch_id", "at", "kind"])
    [(query_id, last)] = tables.values(_LAST_BATCH)
    traffic = {}
    if query_id is not None and after_batch is not None:
        files = tables.files("events", {"batch_id": after_batch})
        columns = [*COLUMNS, "query_id", "batch_id"]
        tables.view("events", files=files, columns=columns, view="later_events")
        since = last_snapshot_before(tables, after_batch + 1)
        moved = crossings(tables, "later_events", since)
        found = tables.values(
            f"""
            SELECT vhost, queue, count(*) FILTER ({ENTERED}), count(*) FILTER ({LEFT})
            FROM {moved} WHERE batch_id > ? AND query_id = ? AND queue IS NOT NULL GROUP BY ALL
            """,
            [after_batch, query_id],
        )
        traffic = {
            (vhost, queue): QueueTraffic(entered, left) for vhost, queue, entered, left in found
        }
    return QueueActivity(-1 if last is None else last, queues, consumer_counts(tables), traffic)
