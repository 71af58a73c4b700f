"""What entered a queue and left it between two instants."""

from collections import Counter
from datetime import timedelta
from typing import Final

from streaming.console.chosen_queue import of_several
from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.reader import portable, read_instant
from streaming.queries.as_of.instant import resolve
from streaming.queries.duckdb_tables import BeforeHistoryError
from streaming.queries.queue_changes import queue_changes
from topology.sentences import say, to_say

CHANGES: Final = (to_say("entered"), to_say("left"))
"""What can happen to a copy in a queue; pages translate it."""


def changes(view: View) -> Answer:
    """List what entered and left a queue between two instants."""
    name = view.name("queue")
    if name is None:
        raise Refused(400, say("Choose a queue: the address has no parameter queue."))
    view.title = say("%(queue)s: entered and left", queue=name)
    first = view.text("from") or (view.end - timedelta(minutes=5)).isoformat(timespec="seconds")
    last = view.text("to") or view.as_of or view.end.isoformat(timespec="seconds")
    vhosts = [vhost for vhost, each in view.declared.items() if name in each.queues]
    vhost = view.vhost or (vhosts[0] if len(vhosts) == 1 else None)
    if vhost is None:
        if vhosts:
            raise Refused(400, of_several(name))
        what = say("There is no queue %(queue)s: add the parameter vhost.", queue=repr(name))
        raise Refused(404, what)
    view.require_read(vhost, name)
    ends = [portable(first), portable(last)]
    view.command = view.dlx("queues", "diff", "--limit", 0, names=[name, *ends], as_of=False)
    try:
        opening = resolve(view.tables, first, read_instant)
    except BeforeHistoryError as error:  # it shows what is known of the time
        if error.first is None:
            raise
        first = error.first.isoformat(timespec="milliseconds")
        opening = resolve(view.tables, first, read_instant)
    cuts = [opening, resolve(view.tables, last, read_instant)]
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
