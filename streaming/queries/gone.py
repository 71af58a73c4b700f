"""What is gone: in no queue, and nobody took it; counted by the words of `ends`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from streaming.queries.actions import WHO
from streaming.queries.death_rates import is_quiet
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.ends import IS_LOST

MAX_LOSSES: Final = 3
_EVENTS: Final = ("vhost", "kind", "user", "channel", "queue", "at")


class Purged(msgspec.Struct, frozen=True):
    """What one user has purged.

    Attributes:
        user: None: the operator.
        count: messages.
        queue: None: several queues.
        queues: how many.
        at: when the last of it was, ISO 8601.
    """

    user: str | None
    count: int
    queue: str | None
    queues: int
    at: str


class Loss(msgspec.Struct, frozen=True):
    """The lost dead letters of one queue, reason and outcome; see `message_history.LOSSES`."""

    vhost: str
    queue: str
    reason: str
    outcome: str
    count: int


class Gone(msgspec.Struct, frozen=True):
    """What is gone, as far as the tables know.

    Attributes:
        lost: dead letters that are lost.
        dropped: dead letters that were dropped, by the reason of their death.
        purged: by who purged them, the most first.
        losses: the largest groups of what is lost, at most `MAX_LOSSES`.
    """

    lost: int = 0
    dropped: Mapping[str, int] = {}
    purged: Sequence[Purged] = ()
    losses: Sequence[Loss] = ()


def gone(tables: Tables, quiet: Sequence[str] = ()) -> Gone:
    """Count what is gone.

    Args:
        quiet: names of queues, or patterns with `*`, whose dead letters are dropped by design.
    """
    purges = tables.view("events", columns=list(_EVENTS), view=tables.new_name("events"))
    rows = tables.rows(
        f"""SELECT {WHO} AS "user", count(*) AS count, count(DISTINCT (vhost, queue)) AS queues,
        min(queue) AS queue, max("at") AS "at" FROM {purges} WHERE kind = 'purged'
        GROUP BY 1 ORDER BY count DESC, "user" """
    )
    purged = [
        Purged(
            row["user"],
            row["count"],
            row["queue"] if row["queues"] == 1 else None,
            row["queues"],
            iso(row["at"]) or "",
        )
        for row in rows
    ]
    if not tables.has("dead_letters"):
        return Gone(purged=purged)
    columns = ["vhost", "queue", "reason", "outcome"]
    view = tables.view("dead_letters", columns=columns, view=tables.new_name("dead_letters"))
    is_lost = f"({IS_LOST} AND NOT {is_quiet(quiet)})"
    found = tables.values(
        f"""SELECT vhost, queue, reason, outcome, {is_lost} AS lost, count(*) AS count
        FROM {view} WHERE {IS_LOST} OR outcome = 'no_exchange'
        GROUP BY ALL ORDER BY count DESC, vhost, queue, reason, outcome"""
    )
    losses = [
        Loss(vhost, queue, reason, outcome, count)
        for vhost, queue, reason, outcome, lost, count in found
        if lost
    ]
    dropped: Counter[str] = Counter()
    for _vhost, _queue, reason, _outcome, lost, count in found:
        if not lost:
            dropped[reason] += count
    return Gone(
        sum(one.count for one in losses),
        dict(dropped.most_common()),
        purged,
        losses[:MAX_LOSSES],
    )
