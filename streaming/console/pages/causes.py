"""Causes: why messages die, in groups, with their trend, what is new, what was redriven before."""

from datetime import datetime
from itertools import islice
from typing import Any, Final

from streaming.console.forms.letters import kept, letters_filter, options_of
from streaming.console.movable import Movable, movable
from streaming.console.page import PAGE_ROWS, Answer, View
from streaming.console.pages.queue import releases_of
from streaming.console.reader import portable
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.groups import HEADER, dead_letter_groups
from streaming.queries.dead_letters.header_names import header_names
from streaming.queries.dead_letters.waiting import prepare_waiting_deaths
from streaming.queries.duckdb_tables import Row, Tables
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
    rows = _groups(view, wanted, names, new_since)
    headers = view.once(f"header names {wanted}", lambda tables: header_names(tables, wanted))
    if header and header not in headers:
        headers = [header, *headers]
    first = (view.page - 1) * PAGE_ROWS
    rows = rows[first : first + PAGE_ROWS + 1]
    known = releases_of(view)
    return {
        "rows": [
            {**row, **_released(known, row), "is_chosen": _is_chosen(row, names)}
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


def _groups(
    view: View, wanted: DeadLetterFilter, names: list[str], new_since: datetime | None
) -> list[Row]:
    """The groups, and of each whether it `waits`: whether a redrive can move a letter of it."""
    letters = movable(view)
    known = DeadLetterFilter(vhost=wanted.vhost, queue=wanted.queue, reason=wanted.reason)
    is_known = wanted == known and {*names} <= {"vhost", "queue", "reason"}
    looks = not is_known and letters.has(known.vhost, known.queue, known.reason)

    def grouped(tables: Tables) -> list[Row]:
        waiting = prepare_waiting_deaths(tables, letters.queues) if looks else None
        found = dead_letter_groups(
            tables, wanted, names, new_since, has_place=True, waiting=waiting
        )
        return list(islice(found, MAX_ROWS))

    rows = view.once(f"groups with places {wanted} {names} {new_since}", grouped)
    if looks:
        return rows
    chosen = {"vhost": known.vhost, "queue": known.queue, "reason": known.reason}
    return [{**row, "waits": is_known and _waits(letters, {**chosen, **row})} for row in rows]


def _waits(letters: Movable, place: Row) -> bool:
    return letters.has(place["vhost"], place["queue"], place["reason"])


def _released(known: list[Release], row: Row) -> dict[str, Any]:
    """The release before the first death of a group, in the queue of that death, and how long."""
    first = datetime.fromisoformat(row["first_seen"])
    found = release_before(known, row["place"]["vhost"], row["place"]["queue"], first)
    before = None if found is None else first - datetime.fromisoformat(found.at)
    return {"release": found, "released_before": before}


def _is_chosen(row: Row, names: list[str]) -> bool:
    """Whether a filter chooses a group alone: none is for an outcome, or for what is empty."""
    return "outcome" not in names and all(row[one] for one in names)
