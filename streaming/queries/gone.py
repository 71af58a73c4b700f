"""What is gone: in no queue, and nobody took it; counted by the words of `ends`."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from streaming.queries.actions import WHO
from streaming.queries.death_rates import is_quiet
from streaming.queries.duckdb_tables import Tables
from streaming.queries.ends import IS_LOST

_EVENTS: Final = ("kind", "user", "channel")


class Gone(msgspec.Struct, frozen=True):
    """What is gone, as far as the tables know.

    Attributes:
        lost: dead letters that are lost.
        dropped: dead letters that were dropped, by the reason of their death.
        purged: messages by who purged them; None: the operator.
    """

    lost: int = 0
    dropped: Mapping[str, int] = {}
    purged: Mapping[str | None, int] = {}


def gone(tables: Tables, quiet: Sequence[str] = ()) -> Gone:
    """Count what is gone.

    Args:
        quiet: names of queues, or patterns with `*`, whose dead letters are dropped by design.
    """
    purges = tables.view("events", columns=list(_EVENTS), view=tables.new_name("events"))
    purged = tables.values(
        f"""SELECT {WHO} AS "user", count(*) AS count FROM {purges} WHERE kind = 'purged'
        GROUP BY ALL ORDER BY count DESC, "user" """
    )
    if not tables.has("dead_letters"):
        return Gone(purged=dict(purged))
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
        dict(purged),
    )
