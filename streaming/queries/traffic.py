"""Which ways messages took in a stretch of time: from exchanges into queues, and deaths."""

from datetime import datetime
from typing import Final

import msgspec

from streaming.queries.duckdb_tables import Tables

_ENTERED: Final = ("vhost", "at", "kind", "exchange", "queue")


class VhostTraffic(msgspec.Struct, frozen=True):
    """The traffic of one vhost.

    Attributes:
        entered: (exchange, queue) -> copies that entered the queue by it.
        deaths: (queue, reason) -> deaths.
        lost: queue -> deaths of which no queue took the letter.
        unrouted: exchange -> publishes that reached no queue.
    """

    entered: dict[tuple[str, str], int]
    deaths: dict[tuple[str, str], int]
    lost: dict[str, int]
    unrouted: dict[str, int]


def traffic(tables: Tables, vhost: str, begin: datetime, end: datetime) -> VhostTraffic:
    """Count what moved in a vhost from an instant up to another."""
    stretch = '"at" >= CAST(? AS TIMESTAMPTZ) AND "at" <= CAST(? AS TIMESTAMPTZ) AND vhost = ?'
    parameters = [begin.isoformat(), end.isoformat(), vhost]
    view = tables.view(
        "events",
        files=tables.files("events", {"at": begin}, inclusive=True),
        columns=_ENTERED,
        view=tables.new_name("events"),
    )
    entered: dict[tuple[str, str], int] = {}
    unrouted: dict[str, int] = {}
    for kind, exchange, queue, count in tables.values(
        f"""
        SELECT kind, coalesce(exchange, ''), coalesce(queue, ''), count(*) FROM {view}
        WHERE {stretch} AND kind IN ('enqueued', 'unroutable', 'returned') GROUP BY ALL ORDER BY ALL
        """,
        parameters,
    ):
        if kind == "enqueued":
            entered[exchange, queue] = count
        else:
            unrouted[exchange] = unrouted.get(exchange, 0) + count
    deaths: dict[tuple[str, str], int] = {}
    lost: dict[str, int] = {}
    if tables.has("dead_letters"):
        died = tables.view(
            "dead_letters",
            files=tables.files("dead_letters", {"at": begin}, inclusive=True),
            columns=["vhost", "at", "queue", "reason", "targets"],
            view=tables.new_name("dead_letters"),
        )
        for queue, reason, count, gone in tables.values(
            f"SELECT queue, reason, count(*), count(*) FILTER (len(targets) = 0) FROM {died} "
            f"WHERE {stretch} GROUP BY ALL ORDER BY ALL",
            parameters,
        ):
            deaths[queue, reason] = count
            if gone:
                lost[queue] = lost.get(queue, 0) + gone
    return VhostTraffic(entered, deaths, lost, unrouted)
