"""Finds copies wherever they are: ready, held or unacked."""

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.context import ShardContext
from streaming.broker.queues.registry import QueueRegistry


def present_copies(
    context: ShardContext, queues: QueueRegistry, channels: ChannelRegistry, wanted: set[int]
) -> set[int]:
    """Those of these copies that some queue still has; reads every queue that has any copy."""
    found: set[int] = set()
    is_unacked = False
    for name in sorted(context.vhost.queues):
        queue = queues.named(name)
        is_unacked |= queue.unacked > 0
        if queue.ready:
            ready = queue.order.matching(lambda copy: copy.copy_id in wanted)
            found.update(copy.copy_id for copy in ready)
        if queue.held.count:
            held = queue.held.fifo.matching(lambda one: one.copy.copy_id in wanted)
            found.update(one.copy.copy_id for one in held)
    if is_unacked:
        found.update(wanted.intersection(channels.unacked_copies()))
    return found
