"""What came into every queue and left it lately, in parts of equal length up to the last batch.

depth now  -  entered  +  left, walking back over the parts  =  a small curve of the depth
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.as_of.crossings import COLUMNS, ENTERED, LEFT, crossings, depths_back
from streaming.queries.as_of.snapshots import last_snapshot_before
from streaming.queries.duckdb_tables import Tables, text

PARTS: Final = 30
PART_S: Final = 30
WINDOW: Final = timedelta(seconds=PARTS * PART_S)
RATE_PARTS: Final = 2
"""How many of the last parts a rate is of: a minute."""


class QueueFlow(msgspec.Struct, frozen=True):
    """What came into one queue and left it, by part, the earliest first.

    Attributes:
        taken: how often a consumer took a message, or settled one, in all parts.
    """

    entered: Sequence[int]
    left: Sequence[int]
    taken: int = 0

    @property
    def rate_in(self) -> float:
        """Copies that entered in a second of the last minute."""
        return sum(self.entered[-RATE_PARTS:]) / (RATE_PARTS * PART_S)

    @property
    def rate_out(self) -> float:
        """Copies that left in a second of the last minute."""
        return sum(self.left[-RATE_PARTS:]) / (RATE_PARTS * PART_S)

    def depths(self, deep: int) -> list[int]:
        """The depth at the end of each part, if it is `deep` at the end of the last."""
        return depths_back(self.entered, self.left, deep)


NO_FLOW: Final = QueueFlow((0,) * PARTS, (0,) * PARTS)


def ever_taken(tables: Tables, places: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Those of some queues, by vhost and name, of which a consumer ever took a message."""
    view = tables.view("events", columns=["vhost", "kind", "queue"], view=tables.new_name("events"))
    among = ", ".join(f"({text(vhost)}, {text(queue)})" for vhost, queue in places)
    return frozenset(
        tables.values(
            f"SELECT DISTINCT vhost, queue FROM {view} "
            f"WHERE kind IN ('delivered', 'consumed') AND (vhost, queue) IN ({among})"
        )
    )


def queue_flows(tables: Tables, end: datetime) -> dict[tuple[str, str], QueueFlow]:
    """Count what came and went in the parts before an instant, by vhost and queue.

    Queues in which nothing moved are absent.
    """
    begin = end - WINDOW
    files = tables.files("events", {"at": begin})
    view = tables.view("events", files=files, columns=COLUMNS, view=tables.new_name("events"))
    moved = crossings(tables, view, last_snapshot_before(tables, begin))
    lasts_us = PART_S * 1_000_000
    begin_us, end_us = (round(one.timestamp() * 1e6) for one in (begin, end))
    within = f'"at" > make_timestamptz({begin_us}) AND "at" <= make_timestamptz({end_us})'
    counts: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    takings: Counter[tuple[str, str]] = Counter()
    for vhost, queue, part, entered, left, taken in tables.values(
        f"""
        SELECT vhost, queue, part,
               coalesce(sum(events) FILTER ({ENTERED}), 0)::BIGINT AS entered,
               coalesce(sum(events) FILTER ({LEFT}), 0)::BIGINT AS "left",
               coalesce(sum(events) FILTER (kind = 'delivered'
                   OR (kind IN ('consumed', 'acked') AND {LEFT})), 0)::BIGINT AS taken
        FROM (  -- grouped by kind: a condition on its text for each event takes longer
            SELECT vhost, queue, kind, was_out,
                   {PARTS - 1} - ({end_us} - epoch_us("at")) // {lasts_us} AS part,
                   count(*) AS events
            FROM {moved} WHERE {within} GROUP BY ALL)
        GROUP BY vhost, queue, part HAVING entered > 0 OR "left" > 0 OR taken > 0
        """
    ):
        columns = counts.setdefault((vhost, queue), ([0] * PARTS, [0] * PARTS))
        columns[0][part], columns[1][part] = entered, left
        takings[vhost, queue] += taken
    return {place: QueueFlow(*columns, takings[place]) for place, columns in counts.items()}
