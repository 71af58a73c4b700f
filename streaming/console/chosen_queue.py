"""The queue that an address names."""

from collections.abc import Sequence

from streaming.console.page import Refused, View
from streaming.queries.duckdb_tables import Row
from streaming.queries.queues import QueueDepth, list_queues
from streaming.queries.vhosts.clients import consumer_counts
from streaming.queries.vhosts.listings import rows_of_queues
from topology.sentences import say


def of_several(name: str) -> str:
    """Why one queue has to be chosen."""
    return say("Several vhosts have a queue %(queue)s: add the parameter vhost.", queue=repr(name))


def queue_of(view: View) -> tuple[QueueDepth, Row]:
    """Return the queue of the URL: what it holds, and with its settings."""
    name = view.name("queue")
    if name is None:
        raise Refused(400, say("Choose a queue: the address has no parameter queue."))
    found = [
        one
        for one in view.once("queues", list_queues)
        if one.queue == name and view.sees(one.vhost)
    ]
    if not found:
        what = say("There is no queue %(queue)s at this instant.", queue=repr(name))
        raise Refused(404, what)
    if len(found) > 1:
        raise Refused(400, of_several(name))
    return found[0], rows_of(view, found)[0]


def rows_of(view: View, found: Sequence[QueueDepth]) -> list[Row]:
    """Queues with what is in them, and the settings that apply to them."""
    return rows_of_queues(view.declared, found, view.once("consumers", consumer_counts))
