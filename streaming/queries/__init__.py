"""Ask the tables of a job from Python, while it runs or without it.

from streaming.queries import DeadLetterFilter, open_tables

with open_tables("tables") as queries:
    rejected = DeadLetterFilter(queue="work", reason="rejected")
    print(queries.dead_letters(rejected).count())
    print(queries.dead_letter_groups(("queue", "cause"), rejected).to_arrow())
"""

from streaming.queries.api import Queries, open_tables
from streaming.queries.dead_letters.causes import CauseSource
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.message_attributes import MessageId
from streaming.queries.redrives.plan import RedriveWish
from streaming.queries.result import QueryResult

__all__ = [
    "CauseSource",
    "DeadLetterFilter",
    "MessageId",
    "Queries",
    "QueryError",
    "QueryResult",
    "RedriveWish",
    "open_tables",
]
