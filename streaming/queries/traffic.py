"""Which ways messages took in a stretch of time: from exchanges into queues, and deaths."""

from datetime import datetime
from typing import Final

import msgspec

from streaming.queries.duckdb_tables import Tables
from streaming.queries.ends import IS_DROPPED, IS_LOST

_ENTERED: Final = ("vhost", "at", "kind", "exchange", "queue")


class VhostTraffic(msgspec.Struct, frozen=True):
    """The traffic of one vhost.

    Attributes:
        entered: (exchange, queue) -> copies that entered the queue by it.
        deaths: (queue, reason) -> deaths.
        lost: queue -> deaths whose letter reached no queue that was meant to take it.
        dropped: queue -> deaths whose letter went nowhere, as the queue was declared.
        unrouted: exchange -> publishes that reached no queue.
    """

    entered: dict[tuple[str, str], int]
    deaths: dict[tuple[str, str], int]
    lost: dict[str, int]
    unrouted: dict[str, int]
    dropped: dict[str, int] = {}


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
        SELECT kind, coalesce(exchange, '') AS source, coalesce(queue, '') AS goal,
               sum(events)::BIGINT
        FROM (  -- grouped as they are stored: an expression for each event takes longer
            SELECT kind, exchange, queue, count(*) AS events FROM {view}
            WHERE {stretch} AND kind IN ('enqueued', 'unroutable', 'returned') GROUP BY ALL)
        GROUP BY kind, source, goal ORDER BY ALL
        """,
        parameters,
    ):
        if kind == "enqueued":
            entered[exchange, queue] = count
        else:
            unrouted[exchange] = unrouted.get(exchange, 0) + count
    deaths: dict[tuple[str, str], int] = {}
    lost: dict[str, int] = {}
    dropped: dict[str, int] = {}
    if tables.has("dead_letters"):
        died = tables.view(
            "dead_letters",
            files=tables.files("dead_letters", {"at": begin}, inclusive=True),
            columns=["vhost", "at", "queue", "reason", "outcome"],
            view=tables.new_name("dead_letters"),
        )
        for queue, reason, count, gone, declared in tables.values(
            f"""
            SELECT queue, reason, count(*), count(*) FILTER ({IS_LOST}),
                   count(*) FILTER ({IS_DROPPED})
            FROM {died} WHERE {stretch} GROUP BY ALL ORDER BY ALL
            """,
            parameters,
        ):
            deaths[queue, reason] = count
            for counts, number in ((lost, gone), (dropped, declared)):
                if number:
                    counts[queue] = counts.get(queue, 0) + number
    return VhostTraffic(entered, deaths, lost, unrouted, dropped)


def most_deaths(tables: Tables, begin: datetime, end: datetime) -> list[str]:
    """The vhosts in which messages died from an instant up to another, most deaths first."""
    if not tables.has("dead_letters"):
        return []
    view = tables.view(
        "dead_letters",
        files=tables.files("dead_letters", {"at": begin}, inclusive=True),
        columns=("vhost", "at"),
        view=tables.new_name("dead_letters"),
    )
    rows = tables.values(
        f"""
        SELECT vhost FROM {view}
        WHERE "at" >= CAST(? AS TIMESTAMPTZ) AND "at" <= CAST(? AS TIMESTAMPTZ)
        GROUP BY vhost ORDER BY count(*) DESC, vhost
        """,
        [begin.isoformat(), end.isoformat()],
    )
    return [vhost for (vhost,) in rows]
