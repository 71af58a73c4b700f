"""The deaths of messages that died several times: the first, the last, and those between."""

from collections.abc import Iterable

import msgspec

from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.message_attributes import MessageId


class OneDeath(msgspec.Struct, frozen=True):
    """A death of a message."""

    lane: int
    seq: int
    vhost: str
    queue: str
    reason: str
    at: str


def repeated_deaths(
    tables: Tables, ids: Iterable[MessageId], where: str | None = None
) -> dict[str, list[OneDeath]]:
    """The deaths of each of these messages that died more than once, in order.

    Args:
        where: a condition for the deaths that are known; None: all.
    """
    chosen = tuple(sorted(set(ids)))
    if not chosen:
        return {}
    found: dict[str, list[OneDeath]] = {}
    selection = Selection(tables, DeadLetterFilter(ids=chosen, where=where))
    columns = "message_id, lane, seq, vhost, queue, reason"
    rows = tables.rows(selection.query(f'{columns}, "at"', 'ORDER BY "at", lane, seq'))
    for row in rows:
        name = str(MessageId.of(row.pop("message_id")))
        found.setdefault(name, []).append(OneDeath(**{**row, "at": iso(row["at"])}))
    return {name: deaths for name, deaths in found.items() if len(deaths) > 1}
