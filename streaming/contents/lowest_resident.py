"""From which offset on messages may still be in queues: what upkeep must not touch.

Worked out from `queue_contents` and the batch it goes up to. It stays a lower bound for ever: what
was in no queue then, and was read before, never comes back; what is read later has higher offsets.

Copies that at-least-once dead-lettering holds are in no queue and need their message all the same.
They are what the broker counts as resident and `queue_contents` does not have: while there are
any, nothing is said.
"""

from collections.abc import Mapping

from streaming.contents.query import CONTENTS, EVENTS
from streaming.ledger.storage import Place
from streaming.ledger.write.batch_row import batch_rows
from streaming.queries.duckdb_tables import Tables

Lowest = dict[tuple[int, int], int]
"""(topic number, partition) -> no message below this offset is in any queue."""


def lowest_resident(root: Place, query_id: str, topics: Mapping[str, int]) -> Lowest:
    """The bound of each partition that is known; others may have anything resident.

    Args:
        query_id: of the job's checkpoint.
        topics: name -> number, of the topics that are read now.
    """
    tables = Tables(root.url, root.options, threads=1)
    try:
        if not (tables.has(EVENTS) and tables.has(CONTENTS)):
            return {}
        as_of = tables.table(CONTENTS).transaction_version(query_id)
        if as_of is None:
            return {}
        events = tables.table(EVENTS)
        rows = list(batch_rows(events, root.below(EVENTS).storage(), query_id, as_of, as_of))
        tables.view(CONTENTS, columns=["message_id"])
        found = tables.values(
            'SELECT message_id.topic_number, message_id."partition", min(message_id."offset"), '
            f"count(*) FROM {CONTENTS} GROUP BY ALL"
        )
    finally:
        tables.close()
    if not rows:
        return {}
    detail = rows[0].detail
    resident = sum(messages for messages, _bytes in detail["resident"].values())
    if sum(count for *_, count in found) != resident:
        return {}
    lowest: Lowest = {
        (topics[name], int(partition)): int(offset)
        for name, ends in detail.get("offsets", {}).items()
        if name in topics
        for partition, offset in ends.items()
    }
    lowest.update(((topic, partition), offset) for topic, partition, offset, _count in found)
    return lowest
