"""The lowest offset per partition of which a message may still be in a queue.

Vacuum and trimming must not remove messages from there on. The offsets come from `queue_contents`
and the batch row of its last batch. They remain lower bounds: a message that left all queues never
comes back, and later messages have higher offsets.

Copies held by at-least-once dead-lettering are in no queue but still need their message. The broker
counts them as resident and `queue_contents` does not have them: while there are any, nothing is
known.
"""

from collections.abc import Mapping
from contextlib import closing

from streaming.ledger.write.batch_row import batch_rows
from streaming.queries.as_of.contents import CONTENTS, EVENTS
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location

Lowest = dict[tuple[int, int], int]
"""(topic number, partition) -> the lowest offset of which a message may be in a queue."""


def lowest_resident(root: Location, query_id: str, topics: Mapping[str, int]) -> Lowest:
    """Find the bound of each partition; any message of the other partitions may be in a queue.

    Args:
        topics: name -> number, of the topics that the job reads.
    """
    with closing(Tables(root.url, root.options, threads=1)) as tables:
        if not (tables.has(EVENTS) and tables.has(CONTENTS)):
            return {}
        as_of = tables.table(CONTENTS).transaction_version(query_id)
        if as_of is None:
            return {}
        events = tables.table(EVENTS)
        rows = list(batch_rows(events, (root / EVENTS).storage(), query_id, as_of, as_of))
        tables.view(CONTENTS, columns=["message_id"])
        found = tables.values(
            'SELECT message_id.topic_number, message_id."partition", min(message_id."offset"), '
            f"count(*) FROM {CONTENTS} GROUP BY ALL"
        )
    if not rows:
        return {}
    detail = rows[0].detail
    if sum(count for *_, count in found) != detail.resident_messages:
        return {}
    lowest: Lowest = {
        (topics[name], int(partition)): int(offset)
        for name, ends in detail.offsets.items()
        if name in topics
        for partition, offset in ends.items()
    }
    lowest.update(((topic, partition), offset) for topic, partition, offset, _count in found)
    return lowest
