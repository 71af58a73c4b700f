"""Causes: why messages die, in groups, with their trend, what is new, what was redriven before."""

from datetime import datetime
from itertools import islice
from typing import Any, Final

from streaming.console.forms.letters import kept, letters_filter, options_of
from streaming.console.page import PAGE_ROWS, Answer, View
from streaming.console.pages.queues import places_that_wait, releases_of
from streaming.console.reader import portable
from streaming.queries.dead_letters.groups import HEADER, dead_letter_groups
from streaming.queries.dead_letters.header_names import header_names
from streaming.queries.duckdb_tables import Row
from streaming.queries.vhosts.releases import Release, release_before

GROUPINGS: Final = (
    *("queue,reason", "cause", "queue,cause", "queue", "reason", "exchange", "routing_key"),
    *("outcome", "vhost"),
)

MAX_ROWS: Final = 10_000
"""How many groups can be paged through."""


def causes(view: View) -> Answer:
    """Show the dead letters in groups, the largest first."""
    header = view.text("by_header")
    given = view.text("by") or ""
    if given.startswith(HEADER):
        header = header or given.removeprefix(HEADER)
    by = f"{HEADER}{header}" if header else view.one_of("by", *GROUPINGS)
    names = [by] if header else by.split(",")
    new_since = view.instant("new_since")
    words = ["--by", by, *options_of(view), "--limit", str(PAGE_ROWS)]
    if new_since is not None:
        words += ["--new-since", portable(view.text("new_since") or "")]
    view.command = view.dlx("dead-letters", "groups", *words)
    wanted = letters_filter(view)
    rows = view.once(
        f"groups with places {wanted} {names} {new_since}",
        lambda tables: list(
            islice(dead_letter_groups(tables, wanted, names, new_since, has_place=True), MAX_ROWS)
        ),
    )
    headers = view.once(f"header names {wanted}", lambda tables: header_names(tables, wanted))
    if header and header not in headers:
        headers = [header, *headers]
    first = (view.page - 1) * PAGE_ROWS
    rows = rows[first : first + PAGE_ROWS + 1]
    known, waiting = releases_of(view), places_that_wait(view)
    return {
        "rows": [
            {**row, **_released(known, row), "waiting": _waits(waiting, row["places"])}
            for row in rows[:PAGE_ROWS]
        ],
        "knows_releases": bool(known),
        "more": len(rows) > PAGE_ROWS,
        "names": names,
        "by": by,
        "by_header": header,
        "groupings": [*GROUPINGS, *(f"{HEADER}{name}" for name in headers)],
        "new_since": view.text("new_since"),
        "has_news": new_since is not None,
        "kept": kept(view),
    }


def _released(known: list[Release], row: Row) -> dict[str, Any]:
    """The release before the first death of a group, in the queue of that death, and how long."""
    first = datetime.fromisoformat(row["first_seen"])
    found = release_before(known, row["place"]["vhost"], row["place"]["queue"], first)
    before = None if found is None else first - datetime.fromisoformat(found.at)
    return {"release": found, "released_before": before}


def _waits(waiting: frozenset[tuple[str, str, str]], places: list[Row]) -> bool:
    """Whether letters wait that died where, and for the reasons why, those of a group died."""
    return any((one["vhost"], one["queue"], one["reason"]) in waiting for one in places)
