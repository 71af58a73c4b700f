"""The balance (streaming/queries/audit) summed up for the demo's report: one line a fate."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from streaming.queries.audit.balance import Balance

_ENDS: Final = {
    "acked": "acknowledged by a consumer",
    "consumed": "consumed without acknowledgement",
    "rejected": "dead: rejected",
    "expired": "dead: expired",
    "maxlen": "dead: maxlen",
    "delivery_limit": "dead: delivery_limit",
    "purged": "purged",
    "deleted": "lost with a deleted queue",
    "rerouted": "rerouted by its queue's alternate exchange",
}


def sheet_lines(drawn: Balance) -> Iterator[str]:
    """The balance over all vhosts and queues, in words; what did not happen is left out."""
    rows = list(_rows(drawn))
    width = max(len(what) for what, _count in rows)
    for what, count in rows:
        yield f"{what:<{width}}  {count:>9,}"


def _rows(drawn: Balance) -> Iterator[tuple[str, int]]:
    queues, vhosts = drawn.queues, drawn.vhosts
    yield "messages published", sum(vhost.messages for vhost in vhosts)
    yield from _happened(
        ("  reached no queue, dropped", sum(vhost.unroutable for vhost in vhosts)),
        ("  reached no queue, returned to the publisher", sum(vhost.returned for vhost in vhosts)),
        ("  refused by a full queue", sum(queue.refused for queue in queues)),
        ("  refused with a channel error", sum(vhost.publish_errors for vhost in vhosts)),
    )
    yield "copies that entered queues, by a publish", sum(queue.published for queue in queues)
    yield "copies that entered queues, by a death", sum(queue.dead_lettered for queue in queues)
    endings: Counter[str] = Counter()
    for queue in queues:
        endings.update(queue.endings)
    yield from _happened(*((f"  {words}", endings[ending]) for ending, words in _ENDS.items()))
    held = sum(queue.held for queue in queues)
    yield from _happened(("  held by at-least-once dead-lettering", held))
    yield "  still in a queue, ready", sum(queue.ready for queue in queues)
    yield "  still in a queue, unacked", sum(queue.unacked for queue in queues)
    if drawn.resident is not None:
        yield "there by the broker's own count", drawn.resident
    yield "records in quarantine", drawn.quarantined
    yield "unexplained", drawn.unexplained


def _happened(*rows: tuple[str, int]) -> Iterator[tuple[str, int]]:
    return ((what, count) for what, count in rows if count)
