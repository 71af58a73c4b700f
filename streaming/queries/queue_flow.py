"""What came into every queue and left it lately, in parts of equal length up to the last batch.

depth now  -  entered  +  left, walking back over the parts  =  a small curve of the depth
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.as_of.contents import LEAVING
from streaming.queries.duckdb_tables import Tables, text

PARTS: Final = 30
PART_S: Final = 30
WINDOW: Final = timedelta(seconds=PARTS * PART_S)
RATE_PARTS: Final = 2
"""How many of the last parts a rate is of: a minute."""

_COLUMNS: Final = ("vhost", "lane", "seq", "at", "kind", "copy_id", "queue")


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
        found = []
        for entered, left in zip(reversed(self.entered), reversed(self.left), strict=True):
            found.append(max(deep, 0))
            deep += left - entered
        return found[::-1]


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
    view = tables.view("events", files=files, columns=_COLUMNS, view=tables.new_name("events"))
    leaving = ", ".join(map(text, LEAVING))
    lasts_us = PART_S * 1_000_000
    begin_us, end_us = (round(one.timestamp() * 1e6) for one in (begin, end))
    within = f'"at" > make_timestamptz({begin_us}) AND "at" <= make_timestamptz({end_us})'
    once = "true"  # a held copy leaves once: when it is held
    files = tables.files("events", {"at": begin}, kinds=["held"])
    held = tables.view("events", files=files, columns=_COLUMNS, view=tables.new_name("events"))
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE flowed_held AS "
        f"SELECT vhost, lane, copy_id FROM {held} WHERE kind = 'held' AND {within}"
    )
    if tables.values("SELECT 1 FROM flowed_held LIMIT 1"):
        once = "(kind IN ('enqueued', 'held') OR (vhost, lane, copy_id) NOT IN (FROM flowed_held))"
    counts: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    takings: Counter[tuple[str, str]] = Counter()
    for vhost, queue, part, entered, left, taken in tables.values(
        f"""
        SELECT vhost, queue, part,
               coalesce(sum(events) FILTER (kind = 'enqueued'), 0)::BIGINT AS entered,
               coalesce(sum(events) FILTER (kind IN ({leaving}) AND NOT is_own),
                   0)::BIGINT AS "left",
               coalesce(sum(events) FILTER (kind = 'delivered'
                   OR (kind IN ('consumed', 'acked') AND NOT is_own)), 0)::BIGINT AS taken
        FROM (  -- grouped by kind: a condition on its text for each event takes longer
            SELECT vhost, queue, kind, copy_id = seq AS is_own,
                   {PARTS - 1} - ({end_us} - epoch_us("at")) // {lasts_us} AS part,
                   count(*) AS events
            FROM {view} WHERE {within} AND {once} GROUP BY ALL)
        GROUP BY vhost, queue, part HAVING entered > 0 OR "left" > 0 OR taken > 0
        """
    ):
        columns = counts.setdefault((vhost, queue), ([0] * PARTS, [0] * PARTS))
        columns[0][part], columns[1][part] = entered, left
        takings[vhost, queue] += taken
    return {place: QueueFlow(*columns, takings[place]) for place, columns in counts.items()}
