"""The views that come with the tables: joins that everybody would write again.

Their text is the same in Spark's SQL and in DuckDB's. Every column is named with its table: bare,
`at` and `offset` are words that newer DuckDB keeps for itself.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ViewSpec:
    """One view.

    Attributes:
        name: as queries use it; no table has it.
        tables: the tables that it reads, by their names.
        query: the SELECT that it stands for.
    """

    name: str
    tables: frozenset[str]
    query: str


QUEUED_MESSAGES: Final = ViewSpec(
    "queued_messages",
    frozenset({"queue_contents", "messages"}),
    """\
SELECT contents.*, messages.exchange AS published_exchange,
       messages.routing_key AS published_routing_key, messages.user AS published_by,
       messages.properties, messages.headers, messages.kafka_headers, messages.origin, messages.body
FROM queue_contents AS contents LEFT JOIN messages
ON messages.topic_number = contents.message_id.topic_number
AND messages.partition = contents.message_id.partition
AND messages.offset = contents.message_id.offset
""",
)
"""What is in the queues, with the message as it arrived: where to, by whom, its headers and body.

A column of `queue_contents` keeps its name and meaning: `exchange` and `routing_key` are those of
the last publish or death.
"""

VIEWS: Final = (QUEUED_MESSAGES,)


def create_views(tables: Collection[str]) -> Iterator[str]:
    """One statement for each view that these tables, or views of their names, are enough for."""
    for view in VIEWS:
        if view.tables <= set(tables):
            yield f"CREATE TEMPORARY VIEW {view.name} AS {view.query}"
