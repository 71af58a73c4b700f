"""The view that comes with the tables: the join of queue contents and messages.

The text is the same in Spark SQL and in DuckDB. Every column is qualified: bare `at` and `offset`
are reserved words of newer DuckDB versions.
"""

from collections.abc import Collection, Iterator
from typing import Final

QUEUED_MESSAGES: Final = "queued_messages"
"""What is in the queues, with each message as it arrived.

A column of `queue_contents` keeps its name and meaning: `exchange` and `routing_key` are those of
the last publish or death.
"""

_TABLES: Final = frozenset({"queue_contents", "messages"})
_QUERY: Final = """\
SELECT contents.*, messages.exchange AS published_exchange,
       messages.routing_key AS published_routing_key, messages.user AS published_by,
       messages.properties, messages.headers, messages.kafka_headers, messages.origin, messages.body
FROM queue_contents AS contents LEFT JOIN messages
ON messages.topic_number = contents.message_id.topic_number
AND messages.partition = contents.message_id.partition
AND messages.offset = contents.message_id.offset
"""


def create_views(tables: Collection[str]) -> Iterator[str]:
    """The statements that create every view whose tables are among these."""
    if set(tables) >= _TABLES:
        yield f"CREATE TEMPORARY VIEW {QUEUED_MESSAGES} AS {_QUERY}"
