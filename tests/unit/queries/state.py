"""The contents of a broker's queues, from its own state: the oracle for `queue_contents`."""

import copy
from typing import Any

from streaming.broker.message import NEVER, NO_COPY
from streaming.broker.shard import Shard
from streaming.broker.state.schema import NO_QUEUE
from tests.builders import Broker


def contents_of(broker: Broker) -> list[dict[str, Any]]:
    """Every ready and unacked copy, sorted, with the columns that the state has."""
    store = copy.deepcopy(broker.store)
    shard = Shard(broker.config, store)
    found: list[dict[str, Any]] = []

    def add(one: Any, queue: str, state: str, user: str | None, channel: str | None) -> None:
        found.append(
            {
                "vhost": broker.config.vhost,
                "lane": broker.config.lane,
                "copy_id": one.copy_id,
                "parent_copy_id": None if one.parent_copy_id == NO_COPY else one.parent_copy_id,
                "offset": one.message.offset,
                "queue": queue,
                "state": state,
                "position": one.position,
                "expires_at_ms": None if one.deadline_ms == NEVER else one.deadline_ms,
                "exchange": one.envelope.exchange,
                "routing_key": one.envelope.routing_keys[0],
                "returns": one.requeue_count,
                "body_bytes": one.message.size,
                "user": user,
                "channel": channel,
            }
        )

    for name in sorted(shard.vhost.queues):
        for one in shard.state.queues.named(name).order.take_all():
            add(one, name, "ready", None, None)
    open_channels = shard.state.channels._numbers()  # noqa: SLF001 - there is no public list
    for (_user, _name), number in sorted(open_channels.items(), key=str):
        channel = shard.state.channels.by_number(number)
        for consumer in channel.consumers.values():
            for delivery in consumer.deliveries:
                if delivery.queue_number == NO_QUEUE:
                    continue
                queue = shard.state.queues.by_number(delivery.queue_number)
                assert queue is not None
                add(delivery.copy, queue.name, "unacked", channel.user, channel.name)
    return sorted(found, key=lambda row: row["copy_id"])
