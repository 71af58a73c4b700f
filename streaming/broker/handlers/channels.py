"""Commands of channels: get, consume, cancel, open, renew and close."""

from typing import Any

from streaming.broker import commands
from streaming.broker.channels.channel import Channel
from streaming.broker.events import Actor
from streaming.broker.handlers import lifecycle, settlement
from streaming.broker.handlers.access import Result, record_channel, vhost_name
from streaming.broker.handlers.queues import usable_queue
from streaming.broker.lanes import got_on, lane_to_get_from, prefetch_on, refuse_on_lanes
from streaming.broker.queues.queue import Queue
from streaming.broker.shard_state import ShardState
from topology.refusals import (
    Refusal,
    access_refused,
    channel_error,
    not_allowed,
    not_implemented,
    precondition_failed,
    queue_in,
    resource_locked,
)
from topology.validation.arguments import CONSUMER_CHECKS, OF_STREAMS, errors_in

PRIORITY = "x-priority"
NO_GETS = "basic.get operations are not supported by quorum queues with single active consumer"


def get(shard: ShardState, actor: Actor, command: commands.Get) -> Result:
    """Do up to `count` single gets, each with what it causes (R-QUEUE-6)."""
    queue = _readable(shard, actor, command.queue)
    if isinstance(queue, Refusal):
        return queue
    if queue.quorum and queue.line.single_active:
        where = queue_in(queue.name, vhost_name(shard))
        return resource_locked(f"cannot obtain access to locked {where}. {NO_GETS}")
    channel = lifecycle.use_channel(shard, actor, command.lease_ms)
    queue.touch()
    config = shard.context.config
    lane = lane_to_get_from(command, config.lane, queue.settings)
    count = command.count if lane == config.lane else 0
    first = channel.gets.next_number
    label = command.label or ""
    gets, auto_ack = channel.gets, command.auto_ack
    deliver_deaths = shard.dead_lettering.deliver
    if command.message is None:
        done = queue.get(count, gets, label, auto_ack, deliver_deaths)
    else:
        topic_number, partition, offset = map(int, command.message.split("/"))
        message = topic_number, partition, offset
        done = 0
        while done < count and queue.get_message(message, gets, label, done, auto_ack=auto_ack):
            done += 1
            deliver_deaths()
    if label and done and not command.auto_ack:
        channel.add_get_label(label, first, done)
    return {"delivered": done, **got_on(config, lane, queue.settings)}


def consume(shard: ShardState, actor: Actor, command: commands.Consume) -> Result:
    """Start a consumer."""
    label = command.label
    known = shard.channels.get(actor.user, actor.channel)
    if known is not None and known.active_consumer(label) is not None:
        return not_allowed(f"attempt to reuse consumer tag '{label}'")
    queue = _readable(shard, actor, command.queue)
    if isinstance(queue, Refusal):
        return queue
    refusal = _refuse_consumer(shard, queue, command, known)
    if refusal is not None:
        return refusal
    channel = lifecycle.use_channel(shard, actor, command.lease_ms)
    prefetch = prefetch_on(
        shard.context.config,
        command.prefetch or channel.prefetch,
        single_lane=queue.settings.single_lane,
    )
    consumer = channel.new_consumer(
        label,
        queue.number,
        prefetch,
        auto_ack=command.auto_ack,
        limited=not queue.quorum,
        priority=command.arguments.get(PRIORITY, 0),
        exclusive=command.exclusive and not queue.quorum,
    )
    detail = {"consumer": label, "prefetch": prefetch, "auto_ack": command.auto_ack}
    if consumer.priority:
        detail["priority"] = consumer.priority
    if consumer.exclusive:
        detail["exclusive"] = True
    record_channel(shard, "consumer_started", queue.name, detail)
    queue.line.add(consumer)
    queue.serve()
    return {"consumer": label}


def _refuse_consumer(
    shard: ShardState, queue: Queue, command: commands.Consume, channel: Channel | None
) -> Refusal | None:
    """Why a queue does not take this consumer (R-QOS-5, R-CONS)."""
    where = queue_in(queue.name, vhost_name(shard))
    compat = shard.context.config.compat
    for argument, error in errors_in(command.arguments, CONSUMER_CHECKS[compat]):
        return precondition_failed(f"invalid arg '{argument}' for {where}: {error.reason}")
    if compat != "3.10" and OF_STREAMS in command.arguments:
        kind = "quorum" if queue.quorum else "classic"
        text = f"invalid arg '{OF_STREAMS}' for {where} of queue type rabbit_{kind}_queue"
        return precondition_failed(text)
    exclusive = command.exclusive and not queue.quorum  # quorum queues ignore it
    if not queue.settings.single_lane:
        refusal = None
        if exclusive:
            refusal = refuse_on_lanes(shard.context.config, "an exclusive consumer")
        elif command.arguments.get(PRIORITY, 0):
            refusal = refuse_on_lanes(shard.context.config, PRIORITY)
        if refusal is not None:
            return refusal
    if queue.quorum:
        if channel is not None and channel.limiter is not None:
            return not_implemented(f"{where} does not support global qos")
        return None
    if exclusive and (queue.line.consumers or queue.line.single_active):
        return access_refused(f"{where} in exclusive use")
    if queue.line.consumers and shard.channels.consumer(queue.line.consumers[0]).exclusive:
        return access_refused(f"{where} in exclusive use")
    return None


def qos(shard: ShardState, actor: Actor, command: commands.Qos) -> Result:
    """Set the prefetch of later consumers, or limit all (R-QOS)."""
    channel = lifecycle.use_channel(shard, actor, command.lease_ms)
    limit = 0
    if command.is_global:
        config = shard.context.config
        limit = prefetch_on(config, command.prefetch, single_lane=False)
    else:
        channel.prefetch = command.prefetch
    if channel.set_limit(limit):
        settlement.serve_held_back(shard, channel)
    return {}


def flow(shard: ShardState, actor: Actor, command: commands.Flow) -> Result:
    """Stop deliveries to the consumers of a channel, or resume them (R-QOS-7)."""
    channel = lifecycle.use_channel(shard, actor, command.lease_ms)
    channel.stop(stopped=not command.active)
    if command.active:
        settlement.serve_resumed(shard, channel)
    return {}


def cancel(shard: ShardState, actor: Actor, command: commands.Cancel) -> Result:
    """Cancel a consumer; a missing one is not an error."""
    consumer = shard.channels.find_consumer(actor.user, command.channel, command.label)
    if consumer is not None:
        lifecycle.cancel_consumer(shard, consumer)
    return {}


def open_channel(shard: ShardState, actor: Actor, command: commands.OpenChannel) -> Result:
    """Open a channel, or change the lease of an open one."""
    channel = shard.channels.get(actor.user, command.channel)
    name = command.connection
    if channel is None:
        channel = shard.channels.open(actor.user, command.channel, name)
    elif name is not None and not _is_of(shard, channel, name):
        return channel_error("second 'channel.open' seen")
    channel.lease_ms = command.lease_ms
    shard.channels.used(channel)
    detail: dict[str, Any] = {"lease_ms": command.lease_ms}
    if name is not None:
        detail["connection"] = name
    record_channel(shard, "channel_opened", "", detail)
    return {"number": channel.number}


def _is_of(shard: ShardState, channel: Channel, connection: str) -> bool:
    """Whether a channel belongs to the connection of that name."""
    known = shard.channels.owners.connection(channel.user, connection)
    return known is not None and known.number == channel.connection


def renew(shard: ShardState, actor: Actor, command: commands.Renew) -> Result:
    """Say whether a channel is open; the command itself renewed its lease."""
    channel = shard.channels.get(actor.user, command.channel)
    if channel is None:
        return {"open": False, "lease_ms": None, "number": None}
    return {"open": True, "lease_ms": channel.lease_ms, "number": channel.number}


def close_channel(shard: ShardState, actor: Actor, command: commands.CloseChannel) -> Result:
    """Close a channel; a missing one is not an error."""
    channel = shard.channels.get(actor.user, command.channel)
    if channel is None:
        shard.channels.forget_publisher(actor.user, command.channel)
    else:
        cause = "channel_error" if command.is_failure else "close_channel"
        lifecycle.close_channel(shard, channel, cause, by_client=not command.is_failure)
    return {}


def close_connection(shard: ShardState, actor: Actor, command: commands.CloseConnection) -> Result:
    """Close a connection; a missing one is not an error."""
    connection = shard.channels.owners.connection(actor.user, command.connection)
    if connection is not None:
        lifecycle.close_connection(shard, connection, "close_connection")
    return {}


def _readable(shard: ShardState, actor: Actor, name: str) -> Queue | Refusal:
    """The queue, if this channel may read from it."""
    return usable_queue(shard, actor, name, "read")
