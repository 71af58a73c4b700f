"""Ask the tables of a job from Python, while it runs or without it.

from streaming.queries import DeadLetterFilter, open_tables

with open_tables("tables") as queries:
    rejected = DeadLetterFilter(queue="work", reason="rejected")
    print(queries.dead_letters(rejected).count())
    print(queries.dead_letter_groups(("queue", "cause"), rejected).to_arrow())

Its names are imported when they are used: a command loads only the question that it asks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.queries.api import Queries, open_tables
    from streaming.queries.dead_letters.cause_texts import CauseSource
    from streaming.queries.dead_letters.filters import DeadLetterFilter
    from streaming.queries.duckdb_tables import QueryError
    from streaming.queries.message_attributes import MessageId
    from streaming.queries.redrives.plan import RedriveWish
    from streaming.queries.result import QueryResult, RowsResult

__all__ = [
    "CauseSource",
    "DeadLetterFilter",
    "MessageId",
    "Queries",
    "QueryError",
    "QueryResult",
    "RedriveWish",
    "RowsResult",
    "open_tables",
]

_PLACES: Final = {
    "CauseSource": "dead_letters.cause_texts",
    "DeadLetterFilter": "dead_letters.filters",
    "MessageId": "message_attributes",
    "Queries": "api",
    "QueryError": "duckdb_tables",
    "QueryResult": "result",
    "RedriveWish": "redrives.plan",
    "RowsResult": "result",
    "open_tables": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
