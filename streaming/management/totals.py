"""What is in all queues together."""

from collections.abc import Iterable
from typing import NamedTuple

from streaming.amqp.vhosts import OpenVhost
from streaming.management.pacing import Pace


class Totals(NamedTuple):
    """Numbers of messages and consumers."""

    ready: int
    unacked: int
    held: int
    consumers: int


async def totals_of(vhosts: Iterable[OpenVhost]) -> Totals:
    """What is in the queues of vhosts."""
    pace = Pace()
    ready = unacked = held = consumers = 0
    for vhost in vhosts:
        known, queues = vhost.shard.vhost.queues, vhost.shard.state.queues
        async for names in pace.parts(list(known)):
            for name in filter(known.__contains__, names):
                queue = queues.named(name)
                ready += queue.ready
                unacked += queue.unacked
                held += queue.held.count
                consumers += len(queue.line.consumers)
    return Totals(ready, unacked, held, consumers)
