"""The depth of a queue over a stretch of time, with what happened to it.

depth at the end (its contents)  -  entered  +  left, walking back  =  depth at every earlier part
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.as_of.contents import LEAVING, prepare_contents
from streaming.queries.duckdb_tables import Tables, iso, text

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
)


class Mark(msgspec.Struct, frozen=True):
    """A change of policies, of the queue itself or its bindings, or a redrive in its vhost.

    Attributes:
        user: who did it; None: the operator, or time alone.
    """

    at: str
    what: str
    name: str
    user: str | None = None


class DepthCurve(msgspec.Struct, frozen=True):
    """The depth of a queue by parts of a stretch of time; every list has one entry per part.

    Attributes:
        at_s: the end of each part, epoch seconds.
        depth: copies ready or unacked at the end of the part.
        entered, left: copies in the part; `died` and `purged` are among those that left.
        marks: changes of policies of the vhost, of the queue and its bindings, and redrives.
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
) -> DepthCurve:
    """Draw the depth of a queue from an instant up to another; the tables' cut is at the end.

    Args:
        deep: the depth at the end, if it is known.
    """
    if deep is None:
        [(deep,)] = tables.values(
            f"SELECT count(*) FROM ({prepare_contents(tables)}) WHERE vhost = ? AND queue = ?",
            [vhost, queue],
        )
    width_s = max((end - begin).total_seconds(), 1.0) / parts
    view = tables.view(
        "events",
        files=tables.files("events", {"at": begin}, inclusive=True),
        columns=_COLUMNS,
        view=tables.new_name("events"),
    )
    leaving = ", ".join(map(text, LEAVING))
    of_queue = f"""FROM {view} WHERE vhost = ? AND queue = ? AND "at" >= CAST(? AS TIMESTAMPTZ)"""
    place = [vhost, queue, begin.isoformat()]
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE held_here AS "
        f"SELECT lane, copy_id {of_queue} AND kind = 'held'",
        place,
    )
    once = "true"  # a held copy leaves once: when it is held
    if tables.values("SELECT 1 FROM held_here LIMIT 1"):
        once = "(kind IN ('enqueued', 'held') OR (lane, copy_id) NOT IN (FROM held_here))"
    found = tables.values(
        f"""
        SELECT least(greatest(floor((epoch("at") - ?) / ?), 0), ?)::INTEGER AS part,
               count(*) FILTER (kind = 'enqueued'), count(*) FILTER (kind <> 'enqueued'),
               count(*) FILTER (kind IN ('died', 'held')), count(*) FILTER (kind = 'purged')
        {of_queue} AND (kind = 'enqueued' OR (kind IN ({leaving}) AND copy_id <> seq)) AND {once}
        GROUP BY part ORDER BY part
        """,
        [begin.timestamp(), width_s, parts - 1, *place],
    )
    columns = [[0] * parts for _ in range(4)]
    for part, *counts in found:
        for column, count in zip(columns, counts, strict=True):
            column[part] = count
    entered, left, died, purged = columns
    depth = [0] * parts
    for part in range(parts - 1, -1, -1):
        depth[part] = max(deep, 0)
        deep += left[part] - entered[part]
    return DepthCurve(
        at_s=[round(begin.timestamp() + width_s * (part + 1), 3) for part in range(parts)],
        depth=depth,
        entered=entered,
        left=left,
        died=died,
        purged=purged,
        marks=_marks(tables, view, vhost, queue, begin),
    )


def _marks(tables: Tables, view: str, vhost: str, queue: str, begin: datetime) -> list[Mark]:
    found = tables.rows(
        f"""
        SELECT "at", "user", what, CASE WHEN kind = 'redrive' THEN redrive
               WHEN what IN ('bound', 'unbound') THEN source ELSE name END AS name
        FROM (SELECT "at", seq, kind, "user", detail ->> '$.what' AS what,
                     detail ->> '$.redrive' AS redrive, detail ->> '$.source' AS source,
                     coalesce(nullif(detail ->> '$.name', ''), detail ->> '$.policy', '') AS name
              FROM {view} WHERE kind IN ('topology', 'redrive') AND lane = 0 AND vhost = ?
              AND "at" >= CAST(? AS TIMESTAMPTZ))
        WHERE (kind = 'redrive' AND what = 'requested')
            OR (kind = 'topology' AND (what LIKE 'policy%' OR what LIKE 'operator_policy%'
                OR ((what LIKE 'queue%' OR what IN ('bound', 'unbound')) AND name = ?)))
        ORDER BY "at", seq LIMIT {MAX_MARKS}
        """,
        [vhost, begin.isoformat(), queue],
    )
    words = {"requested": "redrive", "bound": "bound to", "unbound": "unbound from"}
    return [
        Mark(
            iso(row["at"]) or "",
            str(words.get(row["what"], row["what"])),
            row["name"] or "",
            row["user"],
        )
        for row in found
    ]


def first_change(tables: Tables, vhost: str, queue: str) -> datetime | None:
    """The instant of the first event of a queue that the tables still have."""
    view = tables.view("events", columns=["vhost", "queue", "at"], view=tables.new_name("events"))
    [(at_s,)] = tables.values(
        f'SELECT epoch_us(min("at")) FROM {view} WHERE vhost = ? AND queue = ?', [vhost, queue]
    )
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return None if at_s is None else epoch + timedelta(microseconds=at_s)
