"""What is gone: in no queue, and nobody took it; counted by the words of `ends`."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from streaming.queries.actions import WHO
from streaming.queries.death_rates import is_quiet
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.ends import IS_LOST

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


class Gone(msgspec.Struct, frozen=True):
    """What is gone, as far as the tables know.

    Attributes:
        lost: dead letters that are lost.
        dropped: dead letters that were dropped, by the reason of their death.
        purged: by who purged them, the most first.
    """

    lost: int = 0
    dropped: Mapping[str, int] = {}
    purged: Sequence[Purged] = ()


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
    columns = ["queue", "reason", "outcome"]
    view = tables.view("dead_letters", columns=columns, view=tables.new_name("dead_letters"))
    is_lost = f"({IS_LOST} AND NOT {is_quiet(quiet)})"
    found = tables.values(
        f"""SELECT reason, count(*) FILTER ({is_lost}), count(*) FILTER (NOT {is_lost}) AS dropped
        FROM {view} WHERE {is_lost} OR outcome = 'no_exchange'
        GROUP BY reason ORDER BY dropped DESC, reason"""
    )
    return Gone(
        sum(lost for _reason, lost, _dropped in found),
        {reason: dropped for reason, _lost, dropped in found if dropped},
        purged,
    )
