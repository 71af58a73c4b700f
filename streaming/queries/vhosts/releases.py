"""Releases and deaths: the release before deaths began, and the deaths around a release.

    dlx deployed worker 2.1 --queue orders  -->  events  -->  releases, the latest first
    a queue, the instant of a death         -->  the latest release before it that is of the queue
    a release                               -->  the deaths of the hour before and the hour after

A release concerns the queues that it names, or every queue of its vhost if it names none. What died
at its very instant, such as in the same batch, died before it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from streaming.queries.actions import CONDITIONS, WHO
from streaming.queries.as_of.instant import first_event
from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Tables, iso, text
from streaming.queries.vhosts.changes import changed_name

SPAN: Final = timedelta(hours=1)
"""Deaths are counted for so long before a release and after it."""

MAX_RELEASES: Final = 1_000
_COLUMNS: Final = ("vhost", "lane", "seq", "at", "kind", "user", "channel", "detail")


class Release(msgspec.Struct, frozen=True):
    """A deployment that somebody has noted.

    Attributes:
        name: of the service, with its version.
        queues: those that it names; none: it concerns every queue of the vhost.
        user: None: the operator.
        reason: in the words of whoever noted it.
    """

    vhost: str
    at: str
    name: str
    queues: tuple[str, ...] = ()
    user: str | None = None
    reason: str | None = None

    def concerns(self, vhost: str, queue: str) -> bool:
        """Whether it is of a queue."""
        return vhost == self.vhost and (not self.queues or queue in self.queues)


class DeathsAround(msgspec.Struct, frozen=True):
    """How many messages died in the hour before a release, and in the hour after it.

    Attributes:
        is_over: whether the hour after it is over.
        is_whole: whether the tables know the whole hour before it.
    """

    before: int
    after: int
    is_over: bool
    is_whole: bool = True


def releases(tables: Tables, vhost: str | None = None) -> list[Release]:
    """List the releases, the latest first; of many, the latest `MAX_RELEASES`."""
    view = tables.view("events", columns=list(_COLUMNS), view=tables.new_name("events"))
    rows = tables.rows(
        f"""
        SELECT vhost, "at", {WHO} AS "user", detail FROM {view}
        WHERE {CONDITIONS["deployments"]} AND lane = 0 AND vhost = coalesce(?, vhost)
        ORDER BY "at" DESC, seq DESC LIMIT {MAX_RELEASES}
        """,
        [vhost],
    )
    return [
        release_of(
            row["vhost"], iso(row["at"]) or "", msgspec.json.decode(row["detail"]), row["user"]
        )
        for row in rows
    ]


def release_of(vhost: str, at: str, detail: Mapping[str, Any], user: str | None = None) -> Release:
    """Read the detail of the event of a release."""
    queues = tuple(detail.get("queues") or ())
    return Release(vhost, at, changed_name(dict(detail)), queues, user, detail.get("reason"))


def release_before(
    known: Sequence[Release], vhost: str, queue: str, at: datetime
) -> Release | None:
    """The latest release that concerns a queue and is earlier than a death.

    Args:
        known: the latest first.
    """
    return next(
        (
            one
            for one in known
            if one.concerns(vhost, queue) and datetime.fromisoformat(one.at) < at
        ),
        None,
    )


def deaths_around(tables: Tables, found: Sequence[Release], end: datetime) -> list[DeathsAround]:
    """Count the deaths of the queues that each release concerns, around it.

    Args:
        end: the instant up to which the tables know what happened.
    """
    if not found:
        return []
    if not tables.has(NAME):
        return [DeathsAround(0, 0, is_over=True) for _one in found]
    instants = [datetime.fromisoformat(one.at) for one in found]
    first, last = min(instants) - SPAN, max(instants) + SPAN
    view = tables.view(
        NAME,
        files=tables.files(NAME, {"at": first}, inclusive=True),
        columns=["vhost", "queue", "at"],
        view=tables.new_name(NAME),
    )
    listed = ", ".join(
        f"({number}, {text(one.vhost)}, {_list(one.queues)}, {_instant(at)})"
        for number, (one, at) in enumerate(zip(found, instants, strict=True))
    )
    span = f"INTERVAL {round(SPAN.total_seconds())} SECOND"
    rows = tables.values(
        f"""
        SELECT number, count(*) FILTER ("at" <= released), count(*) FILTER ("at" > released)
        FROM {view} AS death JOIN (VALUES {listed}) AS one (number, of_vhost, queues, released)
            ON death.vhost = of_vhost AND (len(queues) = 0 OR list_contains(queues, death.queue))
            AND "at" >= released - {span} AND "at" < released + {span}
        WHERE "at" >= {_instant(first)} AND "at" < {_instant(last)}
        GROUP BY number
        """
    )
    counts = {number: (before, after) for number, before, after in rows}
    known = first_event(tables)
    return [
        DeathsAround(
            *counts.get(number, (0, 0)),
            is_over=at + SPAN <= end,
            is_whole=known is not None and known <= at - SPAN,
        )
        for number, at in enumerate(instants)
    ]


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(text, names))}]::VARCHAR[]"


def _instant(at: datetime) -> str:
    return f"CAST({text(at.isoformat())} AS TIMESTAMPTZ)"
