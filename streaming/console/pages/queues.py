"""The queues, and one queue: how deep it was when, what is in it, what entered and left it."""

from typing import Final

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.queries.queues import peek
from streaming.queries.vhosts.listings import queue_rows

SORTS: Final = ("name", "messages", "messages_ready", "messages_unacknowledged", "message_bytes")
PREVIEWED: Final = 50


def queues(view: View) -> Answer:
    """List the queues, filtered and sorted, a page at a time."""
    wanted = view.text("name", "") or ""
    sort = view.one_of("sort", *SORTS)
    words = ["queues", "list", *(() if sort == "name" else ("--sort", f"{sort}:desc"))]
    view.command = view.dlx(*words)
    rows = [
        row
        for row in queue_rows(view.tables)
        if view.sees(row["vhost"]) and wanted.lower() in row["name"].lower()
    ]
    rows.sort(key=lambda row: (row["name"], row["vhost"]))
    if sort != "name":
        rows.sort(key=lambda row: row[sort], reverse=True)
    first = (view.page - 1) * PAGE_ROWS
    return {
        "rows": rows[first : first + PAGE_ROWS],
        "total": len(rows),
        "size": PAGE_ROWS,
        "name": wanted,
        "sort": sort,
    }


def queue(view: View) -> Answer:
    """Show one queue."""
    vhost, name = view.text("vhost"), view.text("queue")
    if name is None:
        raise Refused(400, "Choose a queue: the address has no parameter queue.")
    found = [
        row for row in queue_rows(view.tables) if row["name"] == name and view.sees(row["vhost"])
    ]
    if not found:
        raise Refused(404, f"There is no queue {name!r} at this instant.")
    if len(found) > 1:
        raise Refused(400, f"Several vhosts have a queue {name!r}: add the parameter vhost.")
    row = found[0]
    view.title = name
    unacked = view.one_of("state", "ready", "unacked") == "unacked"
    more = ["--unacked"] if unacked else []
    view.command = view.dlx("queues", "peek", name, "--count", PREVIEWED, *more)
    may_read = view.may_read(row["vhost"], name)
    contents = (
        peek(view.tables, name, vhost=row["vhost"], limit=PREVIEWED, unacked=unacked)
        if may_read
        else []
    )
    return {
        "row": row,
        "vhost": vhost,
        "may_read": may_read,
        "contents": contents,
        "unacked": unacked,
    }
