"""The main figures of a shard.

An overview loads every queue, which takes 0.1 ms each. Batches therefore do not use it: they report
`ShardState.resident`, the next deadline, and the queues that they used anyway (`BatchOverview`).
"""

from typing import NamedTuple

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.queues.queue import Queue
from streaming.broker.shard_state import ShardState


class QueueOverview(NamedTuple):
    """One queue.

    Attributes:
        ready, unacked, held: copies by place (held by at-least-once dead-lettering); `*_bytes`:
            their bodies.
        consumers, waiting: all consumers, and those that can take a copy now.
        paused: whether handing out ready copies continues later.
        fill: the share of its limit that its ready copies take, by number or bytes; 0: no limit.
        drops_head, has_ttl, dead_letters: whether it drops its oldest copies when it is full, its
            copies expire, and it has a dead-letter exchange.
    """

    name: str
    type: str
    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int
    held: int
    held_bytes: int
    consumers: int
    waiting: int
    paused: bool
    fill: float = 0.0
    drops_head: bool = False
    has_ttl: bool = False
    dead_letters: bool = True


class ShardOverview(NamedTuple):
    """One shard.

    Attributes:
        now_ms: the clock, epoch milliseconds.
        next_deadline_ms: the earliest timer; NEVER for none.
        next_seq: the sequence number of the next event.
        channels: how many are open.
        resident_messages, resident_bytes: ready, unacked and held copies of all queues,
            and those of purged or deleted queues whose events follow.
        queues: by name.
    """

    now_ms: int
    next_deadline_ms: int
    next_seq: int
    exchanges: int
    channels: int
    resident_messages: int
    resident_bytes: int
    queues: dict[str, QueueOverview]


class BatchOverview(NamedTuple):
    """The queues that a batch used, at its end, and who uses the shard."""

    queues: list[QueueOverview]
    channels: ChannelRegistry

    def clients(self) -> tuple[int, list[str | None]]:
        """How many channels are open, and the users that have any; reads their directory."""
        return self.channels.count(), self.channels.users()


def overview_of(shard: ShardState) -> ShardOverview:
    """The overview of a shard; loads every queue."""
    context = shard.context
    queues = {
        name: queue_overview(shard.queues.named(name)) for name in sorted(context.vhost.queues)
    }
    messages, size = shard.resident()
    return ShardOverview(
        context.clock.now_ms,
        context.clock.next_deadline_ms(),
        context.events.next_seq,
        len(context.vhost.router.exchanges),
        shard.channels.count(),
        messages,
        size,
        queues,
    )


def batch_overview_of(shard: ShardState) -> BatchOverview:
    """The overview of the batch that ends; loads nothing."""
    return BatchOverview([queue_overview(queue) for queue in shard.queues.loaded()], shard.channels)


def queue_overview(queue: Queue) -> QueueOverview:
    """The figures of one queue."""
    settings = queue.settings
    return QueueOverview(
        queue.name,
        queue.declaration.queue_type,
        queue.ready,
        queue.ready_bytes,
        queue.unacked,
        queue.unacked_bytes,
        queue.held.count,
        queue.held.bytes,
        len(queue.line.consumers),
        len(queue.line.waiting),
        queue.paused,
        max(
            _share(queue.ready, settings.max_length),
            _share(queue.ready_bytes, settings.max_length_bytes),
        ),
        settings.overflow == "drop-head",
        settings.message_ttl_ms is not None,
        settings.dead_letter_exchange is not None,
    )


def _share(used: int, limit: int | None) -> float:
    return 0.0 if limit is None else used / max(limit, 1)
