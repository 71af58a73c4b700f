"""The depth of a queue over a stretch of time, with what happened to it.

depth at the end (its contents)  -  entered  +  left, walking back  =  depth at every earlier part
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.actions import WHO
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.crossings import ENTERED, LEFT, crossings, depths_back
from streaming.queries.as_of.snapshots import last_snapshot_before
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.vhosts.changes import changes_in, concerning
from streaming.queries.vhosts.declared import Declared
from topology.sentences import say_count

PARTS: Final = 240
"""Into how many parts a stretch is divided."""

MAX_MARKS: Final = 200
_COLUMNS: Final = (
    "batch_id",
    "vhost",
    "lane",
    "seq",
    "at",
    "kind",
    "copy_id",
    "queue",
    "detail",
    "user",
    "channel",
    "reason",
)


class Mark(msgspec.Struct, frozen=True):
    """A change that concerns the queue: a deployment, its purge, a redrive out of it or into it.

    Attributes:
        what: `redrive`, `purged`, or as in `Change`.
        name: of a purge: how many messages.
        user: who did it; None: the operator, or time alone.
        reason: in their words.
    """

    at: str
    what: str
    name: str
    user: str | None = None
    reason: str | None = None


class DepthCurve(msgspec.Struct, frozen=True):
    """The depth of a queue by parts of a stretch of time; every list has one entry per part.

    Attributes:
        at_s: the end of each part, epoch seconds.
        depth: copies ready or unacked at the end of the part.
        entered, left: copies in the part; `died` and `purged` are among those that left.
        marks: what was changed, in order.
    """

    at_s: list[float]
    depth: list[int]
    entered: list[int]
    left: list[int]
    died: list[int]
    purged: list[int]
    marks: list[Mark]


def depth_curve(
    tables: Tables,
    vhost: str,
    queue: str,
    begin: datetime,
    end: datetime,
    parts: int = PARTS,
    *,
    deep: int | None = None,
    declared: Declared | None = None,
) -> DepthCurve:
    """Draw the depth of a queue from an instant up to another; the tables' cut is at the end.

    Args:
        deep: the depth at the end, if it is known.
        declared: what is declared in the vhost: it tells which changes concern the queue.
    """
    if deep is None:
        [(deep,)] = tables.values(
            f"SELECT count(*) FROM ({prepare_contents(tables)}) WHERE vhost = ? AND queue = ?",
            [vhost, queue],
        )
    width_s = max((end - begin).total_seconds(), 1.0) / parts
    moved = crossings(tables, _events(tables, begin), last_snapshot_before(tables, begin))
    found = tables.values(
        f"""
        SELECT part, coalesce(sum(events) FILTER ({ENTERED}), 0)::BIGINT AS entered,
               coalesce(sum(events) FILTER ({LEFT}), 0)::BIGINT AS gone,
               coalesce(sum(events) FILTER (kind IN ('died', 'held') AND {LEFT}), 0)::BIGINT,
               coalesce(sum(events) FILTER (kind = 'purged' AND {LEFT}), 0)::BIGINT
        FROM (  -- grouped by kind: conditions on it for each event take longer
            SELECT kind, was_out, count(*) AS events,
                   least(greatest(floor((epoch("at") - ?) / ?), 0), ?)::INTEGER AS part
            FROM {moved} WHERE vhost = ? AND queue = ? AND "at" >= CAST(? AS TIMESTAMPTZ)
            GROUP BY ALL)
        GROUP BY part HAVING entered > 0 OR gone > 0
        """,
        [begin.timestamp(), width_s, parts - 1, vhost, queue, begin.isoformat()],
    )
    columns = [[0] * parts for _ in range(4)]
    for part, *counts in found:
        for column, count in zip(columns, counts, strict=True):
            column[part] = count
    entered, left, died, purged = columns
    return DepthCurve(
        at_s=[round(begin.timestamp() + width_s * (part + 1), 3) for part in range(parts)],
        depth=depths_back(entered, left, deep),
        entered=entered,
        left=left,
        died=died,
        purged=purged,
        marks=_marks(tables, vhost, queue, (begin, end), declared),
    )


def _events(tables: Tables, begin: datetime, kinds: Collection[str] = ()) -> str:
    """A view of the events from an instant on; others of the same files may be in it."""
    files = tables.files("events", {"at": begin}, inclusive=True, kinds=kinds)
    return tables.view("events", files=files, columns=_COLUMNS, view=tables.new_name("events"))


def _marks(
    tables: Tables,
    vhost: str,
    queue: str,
    span: tuple[datetime, datetime],
    declared: Declared | None,
) -> list[Mark]:
    moves = ("redriven", "republished", "discarded")
    begun = _events(tables, span[0], ["redrive"])
    redrives = tables.rows(
        f"""
        WITH moves AS (
            SELECT DISTINCT detail ->> '$.redrive' AS name
            FROM {_events(tables, span[0], moves)} WHERE kind IN {moves} AND vhost = ?
            AND (queue = ? OR list_contains((detail -> '$.targets')::VARCHAR[], ?)))
        SELECT "at", "user", name, reason FROM {begun} JOIN moves ON name = detail ->> '$.redrive'
        WHERE kind = 'redrive' AND lane = 0 AND vhost = ? AND detail ->> '$.what' = 'requested'
        AND "at" >= CAST(? AS TIMESTAMPTZ) ORDER BY "at" DESC, seq DESC LIMIT {MAX_MARKS}
        """,
        [vhost, queue, queue, vhost, span[0].isoformat()],
    )
    marks = [
        Mark(iso(row["at"]) or "", "redrive", row["name"] or "", row["user"], row["reason"])
        for row in redrives
    ]
    purges = tables.rows(
        f"""
        SELECT "at", {WHO} AS "user", reason, count(*) AS messages
        FROM {_events(tables, span[0], ["purged"])}
        WHERE kind = 'purged' AND vhost = ? AND queue = ? AND "at" >= CAST(? AS TIMESTAMPTZ)
        GROUP BY ALL ORDER BY "at" DESC LIMIT {MAX_MARKS}
        """,
        [vhost, queue, span[0].isoformat()],
    )
    marks += [
        Mark(
            iso(row["at"]) or "",
            "purged",
            say_count("%(count)s message", "%(count)s messages", row["messages"]),
            row["user"],
            row["reason"],
        )
        for row in purges
    ]
    for one in concerning(changes_in(tables, *span, vhost, [queue]), vhost, queue, declared):
        change = one.change
        marks.append(Mark(change.at, change.what, change.name, change.user, change.reason))
    return sorted(marks, key=lambda mark: mark.at)[-MAX_MARKS:]


def first_change(tables: Tables, vhost: str, queue: str) -> datetime | None:
    """The instant of the first event of a queue that the tables still have."""
    view = tables.view("events", columns=["vhost", "queue", "at"], view=tables.new_name("events"))
    [(at_s,)] = tables.values(
        f'SELECT epoch_us(min("at")) FROM {view} WHERE vhost = ? AND queue = ?', [vhost, queue]
    )
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return None if at_s is None else epoch + timedelta(microseconds=at_s)
