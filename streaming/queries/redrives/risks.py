"""Why letters of a redrive may die again: what killed them still stands, or a death is final.

target queues, deaths in them  -->  the last change before the deaths is the latest  -->  Risk
target queues, declarations    -->  no dead-letter exchange                          -->  Risk
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from streaming.queries.duckdb_tables import Tables
from streaming.queries.vhosts.changes import (
    CHANGED_BEFORE,
    Change,
    changes_in,
    concerning,
    suspects,
)
from streaming.queries.vhosts.declared import Declared


class Reached(NamedTuple):
    """A letter of a plan: where and when it died, and the queues that it would reach."""

    died_in: str
    died_at: datetime
    queues: tuple[str, ...]


class Risk(msgspec.Struct, frozen=True):
    """What threatens letters in one target queue.

    Attributes:
        change: the latest change of the queue, if letters died there after it; None: none is known
            in the day before the first of these deaths, or a later change may have repaired it.
        since: the first of these deaths that came after the change, ISO 8601; None without one.
        is_final: whether no dead-letter exchange takes what dies in the queue.
    """

    queue: str
    change: Change | None
    since: str | None
    is_final: bool


def risks_of(
    tables: Tables, vhost: str, known: Mapping[str, Declared], letters: Iterable[Reached]
) -> list[Risk]:
    """List the target queues of a plan in which letters may die again, by name."""
    deaths: dict[str, list[datetime]] = {}
    for letter in letters:
        for queue in letter.queues:
            died = deaths.setdefault(queue, [])
            if letter.died_in == queue:
                died.append(letter.died_at)
    declared = known.get(vhost)
    if declared is None or not deaths:
        return []
    now = datetime.now(UTC)
    first = min((at for died in deaths.values() for at in died), default=None)
    recorded = []
    if first is not None:
        recorded = changes_in(tables, first - CHANGED_BEFORE, now, vhost, deaths)
    model = declared.vhost()
    found = []
    for queue, died in sorted(deaths.items()):
        is_final = False
        if queue in declared.queues:
            exchange = model.settings(declared.queues[queue]).dead_letter_exchange
            is_final = exchange is None or (exchange != "" and exchange not in declared.exchanges)
        change = None
        after: list[datetime] = []
        if died and recorded:
            chosen = [*concerning(recorded, vhost, queue, declared)]
            latest = suspects(tables, chosen, queue, min(died) - CHANGED_BEFORE, now)
            change = next(latest, None)
        if change is not None:
            after = [at for at in died if at > datetime.fromisoformat(change.at)]
        if after or is_final:
            since = min(after).astimezone(UTC).isoformat() if after else None
            found.append(Risk(queue, change if after else None, since, is_final))
    return found
