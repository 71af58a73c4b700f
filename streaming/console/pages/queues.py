"""The queues: what is in each, its rates and its marks."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from streaming.console.chosen_queue import rows_of
from streaming.console.page import PAGE_ROWS, Answer, View
from streaming.console.queue_marks import Line, lines, stale_s
from streaming.queries.queue_flow import NO_FLOW, WINDOW

ORDERS: Final = ("desc", "asc")

SORTS: Final[Mapping[str, Callable[[Line], Any]]] = {
    "name": lambda one: one.depth.queue,
    "messages": lambda one: one.depth.ready + one.depth.unacked,
    "messages_ready": lambda one: one.depth.ready,
    "messages_unacknowledged": lambda one: one.depth.unacked,
    "message_bytes": lambda one: one.depth.bytes,
    "in": lambda one: one.flow.rate_in,
    "out": lambda one: one.flow.rate_out,
    "oldest": lambda one: _age_us(one.depth.oldest_at),
    "consumers": lambda one: one.consumers,
    "dead": lambda one: one.dead,
}
OF_COMMAND: Final = frozenset(
    {"messages", "messages_ready", "messages_unacknowledged", "message_bytes", "consumers"}
)
"""What `dlx queues list` sorts by too."""

SHOWN: Final[Mapping[str, Callable[[Line], bool]]] = {
    "": lambda _one: True,
    "unserved": lambda one: one.is_unserved,
    "nearly_full": lambda one: one.is_nearly_full,
    "dropping": lambda one: one.dropped > 0,
    "dead": lambda one: one.dead > 0,
    "filled": lambda one: one.depth.ready + one.depth.unacked > 0,
    "moving": lambda one: one.flow is not NO_FLOW,
}
"""Which queues are listed."""


def queues(view: View) -> Answer:
    """List the queues, filtered and sorted, a page at a time."""
    wanted = view.text("name", "") or ""
    sort = view.one_of("sort", *SORTS)
    order = view.one_of("order", *(ORDERS if sort != "name" else ORDERS[::-1]))
    shown = view.one_of("show", *SHOWN)
    words = ["queues", "list", *(("--sort", f"{sort}:{order}") if sort in OF_COMMAND else ())]
    view.command = view.dlx(*words)
    found = [
        one
        for one in lines(view)
        if wanted.lower() in one.depth.queue.lower() and SHOWN[shown](one)
    ]
    found.sort(key=lambda one: (one.depth.queue, one.depth.vhost))
    found.sort(key=SORTS[sort], reverse=order == "desc")
    first = (view.page - 1) * PAGE_ROWS
    page = found[first : first + PAGE_ROWS]
    return {
        "rows": list(zip(rows_of(view, [one.depth for one in page]), page, strict=True)),
        "total": len(found),
        "size": PAGE_ROWS,
        "name": wanted,
        "sort": sort,
        "order": order,
        "show": shown,
        "shows": list(SHOWN),
        "window_min": WINDOW // timedelta(minutes=1),
        "stale_s": stale_s(view),
    }


def _age_us(oldest_at: str | None) -> int:
    """How old, so that the oldest is the largest; of an empty queue the least."""
    if oldest_at is None:
        return -(2**62)
    return -round(datetime.fromisoformat(oldest_at).timestamp() * 1e6)
