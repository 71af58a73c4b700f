"""The queues, and one queue: how deep it was when, what is in it, what entered and left it."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.reader import portable, read_instant
from streaming.queries.as_of import resolve
from streaming.queries.depth_curve import DepthCurve, depth_curve, first_change
from streaming.queries.duckdb_tables import Row
from streaming.queries.queue_changes import queue_changes
from streaming.queries.queues import QueueDepth, list_queues, peek
from streaming.queries.vhosts.clients import consumer_counts
from streaming.queries.vhosts.listings import rows_of_queues

SORTS: Final[dict[str, Callable[[QueueDepth], Any]]] = {
    "name": lambda one: one.queue,
    "messages": lambda one: one.ready + one.unacked,
    "messages_ready": lambda one: one.ready,
    "messages_unacknowledged": lambda one: one.unacked,
    "message_bytes": lambda one: one.bytes,
}
STRETCHES: Final = {"1h": 3_600, "15m": 900, "6h": 21_600, "24h": 86_400, "7d": 604_800, "all": 0}
PREVIEWED: Final = 50


def queues(view: View) -> Answer:
    """List the queues, filtered and sorted, a page at a time."""
    wanted = view.text("name", "") or ""
    sort = view.one_of("sort", *SORTS)
    words = ["queues", "list", *(() if sort == "name" else ("--sort", f"{sort}:desc"))]
    view.command = view.dlx(*words)
    found = [
        one
        for one in view.once("queues", list_queues)
        if view.sees(one.vhost) and wanted.lower() in one.queue.lower()
    ]
    found.sort(key=lambda one: (one.queue, one.vhost))
    if sort != "name":
        found.sort(key=SORTS[sort], reverse=True)
    first = (view.page - 1) * PAGE_ROWS
    return {
        "rows": _rows(view, found[first : first + PAGE_ROWS]),
        "total": len(found),
        "size": PAGE_ROWS,
        "name": wanted,
        "sort": sort,
    }


def queue(view: View) -> Answer:
    """Show one queue, and a page of its contents."""
    place, row = _row(view)
    vhost, name = row["vhost"], row["name"]
    view.title = name
    unacked = view.one_of("state", "ready", "unacked") == "unacked"
    stretch = view.one_of("stretch", *STRETCHES)
    more = ["--unacked"] if unacked else []
    view.command = view.dlx("queues", "peek", "--count", PREVIEWED, *more, names=[name])
    begin = view.before(STRETCHES[stretch])
    if not STRETCHES[stretch]:
        begin = first_change(view.tables, vhost, name) or begin
    deep = place.ready + place.unacked
    curve = depth_curve(view.tables, vhost, name, begin, view.end, deep=deep)
    may_read = view.may_read(vhost, name)
    total = place.unacked if unacked else place.ready
    first = (view.page - 1) * PREVIEWED
    contents = []
    if may_read and first < total:
        contents = peek(
            view.tables, name, limit=PREVIEWED, unacked=unacked, first=first, known=place
        )
    return {
        "row": row,
        "may_read": may_read,
        "contents": contents,
        "total": total,
        "size": PREVIEWED,
        "unacked": unacked,
        "stretch": stretch,
        "stretches": list(STRETCHES),
        "curve": curve,
        "drawn": _drawn(curve, view),
        "begin": begin,
    }


def _row(view: View) -> tuple[QueueDepth, Row]:
    """Return the queue of the URL: what it holds, and with its settings."""
    name = view.text("queue")
    if name is None:
        raise Refused(400, "Choose a queue: the address has no parameter queue.")
    found = [
        one
        for one in view.once("queues", list_queues)
        if one.queue == name and view.sees(one.vhost)
    ]
    if not found:
        raise Refused(404, f"There is no queue {name!r} at this instant.")
    if len(found) > 1:
        raise Refused(400, f"Several vhosts have a queue {name!r}: add the parameter vhost.")
    return found[0], _rows(view, found)[0]


def _rows(view: View, found: Sequence[QueueDepth]) -> list[Row]:
    return rows_of_queues(view.declared, found, view.once("consumers", consumer_counts))


def _drawn(curve: DepthCurve, view: View) -> dict[str, Any]:
    """Return the curve as curve.js reads it."""
    return {
        "at_s": curve.at_s,
        "series": [
            {"label": "depth", "values": curve.depth},
            {"label": "died", "values": curve.died, "bars": True},
            {"label": "purged", "values": curve.purged, "bars": True},
        ],
        "marks": [{"at_s": datetime.fromisoformat(mark.at).timestamp()} for mark in curve.marks],
        "link": view.here(as_of=None, page=None),
    }


def changes(view: View) -> Answer:
    """List what entered and left a queue between two instants."""
    name = view.text("queue")
    if name is None:
        raise Refused(400, "Choose a queue: the address has no parameter queue.")
    view.title = f"{name}: entered and left"
    first = view.text("from") or (view.end - timedelta(minutes=5)).isoformat(timespec="seconds")
    last = view.text("to") or view.as_of or view.end.isoformat(timespec="seconds")
    vhosts = [vhost for vhost, each in view.declared.items() if name in each.queues]
    vhost = view.vhost or (vhosts[0] if len(vhosts) == 1 else None)
    if vhost is None:
        what = "Several vhosts have" if vhosts else "There is no"
        raise Refused(
            404 if not vhosts else 400, f"{what} queue {name!r}: add the parameter vhost."
        )
    view.require_read(vhost, name)
    ends = [portable(first), portable(last)]
    view.command = view.dlx("queues", "diff", "--limit", 0, names=[name, *ends], as_of=False)
    cuts = [resolve(view.tables, one, read_instant) for one in (first, last)]
    rows = queue_changes(view.tables, name, cuts[0], cuts[1], vhost)
    counts = Counter((row["change"], row["why"]) for row in rows)
    begin = (view.page - 1) * PAGE_ROWS
    return {
        "name": name,
        "of_vhost": vhost,
        "first": first,
        "last": last,
        "counts": counts.most_common(),
        "rows": rows[begin : begin + PAGE_ROWS],
        "total": len(rows),
        "size": PAGE_ROWS,
    }
