"""Publishes in a transaction: routed when they are published, sent when that is committed (R-TX-2).

RabbitMQ 3.10 keeps the names of the queues, and looks them up at the commit. 4.0 keeps the queues;
a quorum queue is whoever has its name, and forgets without a word what is sent to it in vain.
"""

from typing import Any, NamedTuple

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.message_route import route_with
from streaming.broker.message import ANY_QUEUE, Envelope, PublishedHeaders, Routed
from streaming.broker.queues.queue import Queue
from streaming.broker.queues.registry import QueueRegistry


class Destinations(NamedTuple):
    """Where a publish goes at the commit.

    Attributes:
        queues: those that are still there.
        had_queues: it is not returned as unroutable, whether they are there or not.
        is_lost: it cannot be confirmed, because a queue has gone.
    """

    queues: tuple[Queue, ...]
    had_queues: bool
    is_lost: bool


def route_now(
    context: ShardContext, queues: QueueRegistry, envelope: Envelope, headers: dict[str, Any] | None
) -> Routed:
    """The queues of a publish that is accepted.

    Args:
        headers: of the message.
    """
    is_late = context.config.compat == "3.10"
    if is_late and not envelope.exchange:
        return tuple([(name, ANY_QUEUE) for name in sorted(set(envelope.routing_keys))])
    route = route_with(context, envelope, lambda: PublishedHeaders(headers))
    numbers = context.vhost.queue_numbers
    return tuple(
        [
            (name, ANY_QUEUE if is_late or queues.named(name).quorum else numbers[name])
            for name in route.queues
        ]
    )


def destinations(context: ShardContext, queues: QueueRegistry, routed: Routed) -> Destinations:
    """Where a publish goes that was routed before."""
    numbers = context.vhost.queue_numbers
    is_late = context.config.compat == "3.10"
    found: list[Queue] = []
    is_lost = False
    for name, number in routed:
        if number not in {ANY_QUEUE, numbers.get(name)}:
            is_lost = True
        elif name in numbers:
            queue = queues.named(name)
            if number != ANY_QUEUE or is_late or queue.quorum:
                found.append(queue)
    return Destinations(tuple(found), bool(routed) and not is_late, is_lost)
