"""How messages were published, if their batches are known."""

from collections.abc import Sequence
from typing import Final

from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import MessageId
from streaming.queries.search_index import IndexedMessage

_COLUMNS: Final = (
    *("batch_id", "vhost", "topic_number", "partition", "offset", "origin"),
    *("user", "exchange", "routing_key", "properties"),
)


def publishes(tables: Tables, hits: Sequence[IndexedMessage]) -> dict[MessageId, Row]:
    """How each message was published; `published_at` is the time of its Kafka record."""
    if not hits:
        return {}
    keys = ", ".join(str(tuple(one.message_id)) for one in hits)
    condition = f'(topic_number, "partition", "offset") IN ({keys})'
    batches = sorted({one.batch_id for one in hits})
    return {
        MessageId(row["topic_number"], row["partition"], row["offset"]): row
        for row in messages_of(tables, batches, condition, len(hits))
    }


def messages_of(tables: Tables, batches: list[int], condition: str, count: int) -> list[Row]:
    """Messages of some batches: files and row groups of others are not read."""
    files = sorted(
        {
            file
            for batch in batches
            for file in tables.files(
                "messages", {"batch_id": batch}, inclusive=True, up_to={"batch_id": batch}
            )
        }
    )
    view = tables.view("messages", files=files, columns=_COLUMNS, view=tables.new_name("messages"))
    listed = ", ".join(map(str, batches))
    return tables.rows(
        f"SELECT *, origin.timestamp AS published_at FROM {view} "
        f"WHERE batch_id BETWEEN {batches[0]} AND {batches[-1]} "
        f"AND batch_id IN ({listed}) AND {condition} "
        f'ORDER BY topic_number, "partition", "offset" LIMIT {count}'
    )
