"""What entered the queues and left them: the one rule behind curves, rates and differences.

    events of a stretch  +  copies that were held before it  -->  which events are crossings

A copy enters its queue with its `enqueued` event. It leaves with the first of its leaving events,
and only if it was in the queue: one that was refused on arrival dies there and never leaves. A held
copy left when it was held, which may be long before the stretch, and is gone when it ends later.
"""

from collections.abc import Sequence
from typing import Final

from streaming.queries.as_of.contents import HELD, LEAVING
from streaming.queries.as_of.snapshots import (
    Snapshot,
    events_after,
    is_in_topology,
    snapshot_contents,
)
from streaming.queries.duckdb_tables import Tables, text

COLUMNS: Final = ("vhost", "lane", "seq", "at", "kind", "copy_id", "queue")
"""The columns of events that the rule and every question about crossings need."""

ENTERED: Final = "(kind = 'enqueued')"
LEFT: Final = f"(kind IN ({', '.join(map(text, LEAVING))}) AND NOT was_out)"
"""Conditions on the rows of `crossings`; on groups by `kind` and `was_out` they take less time."""

_AT_LEAST_ONCE: Final = "at-least-once"
"""What a declaration says of queues that hold copies."""


def crossings(tables: Tables, events: str, since: Snapshot | None) -> str:
    """Create a view of events that says of each whether its copy was out of its queue before.

    Args:
        events: a view with `COLUMNS`, and others, of a stretch that begins after `since`.
        since: a snapshot before the stretch, as `last_snapshot_before` finds it; None: there is
            none.

    Returns:
        Its name. It has the rows of `events`, and `was_out`. Those with `ENTERED` entered their
        queue and those with `LEFT` left it; the others crossed nothing.
    """
    was_out = "copy_id = seq"
    if _holds_any(tables, since):
        was_out += f" OR (kind <> '{HELD}' AND (vhost, lane, copy_id) IN (FROM held_copies))"
    view = tables.new_name("crossings")
    tables.define(view, f"SELECT *, coalesce({was_out}, false) AS was_out FROM {events}")
    return view


def depths_back(entered: Sequence[int], left: Sequence[int], deep: int) -> list[int]:
    """The depth at the end of each part of a stretch, if it is `deep` at the end of the last."""
    found = []
    for came, went in zip(reversed(entered), reversed(left), strict=True):
        found.append(max(deep, 0))
        deep += went - came
    return found[::-1]


def _holds_any(tables: Tables, since: Snapshot | None) -> bool:
    """Create the table of the copies held at a snapshot or after it; whether it has any.

    No event is read for it unless a queue was declared to hold copies: most tables have none.
    """
    if not is_in_topology(tables, since, _AT_LEAST_ONCE):
        return False
    events_after(tables, since, ["vhost", "lane", "copy_id", "kind"], "held_later", kinds=[HELD])
    held = f"SELECT vhost, lane, copy_id FROM held_later WHERE kind = '{HELD}'"
    if since is not None:
        stored = snapshot_contents(tables, since, held=True)
        held += f" UNION ALL SELECT vhost, lane, copy_id FROM {stored} WHERE state = '{HELD}'"
    tables.connection.execute(f"CREATE OR REPLACE TEMP TABLE held_copies AS {held}")
    return bool(tables.values("SELECT 1 FROM held_copies LIMIT 1"))
