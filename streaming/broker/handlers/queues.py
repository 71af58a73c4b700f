"""Commands about queues: declare, delete, purge, depth."""

import msgspec

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers import lifecycle
from streaming.broker.handlers.access import Result, refuse_access, vhost_name
from streaming.broker.lanes import refuse_on_lanes
from streaming.broker.queues.queue import Queue
from streaming.broker.shard_state import ShardState
from topology import limits
from topology.declarations import RESERVED_PREFIX
from topology.declarations import Queue as Declaration
from topology.permissions import Access, needs_to_declare_queue
from topology.refusals import (
    Refusal,
    exclusive_queue,
    no_queue,
    precondition_failed,
    queue_in_use,
    queue_not_empty,
)
from topology.validation.declaration_errors import SINGLE_ACTIVE_CONSUMER
from topology.validation.refuse import inequivalent_queue, refuse_queue


def declare_queue(shard: ShardState, actor: Actor, command: commands.DeclareQueue) -> Result:
    """Declare a queue, or check that it exists (`passive`)."""
    declaration = command.queue
    if declaration.exclusive:  # it ends before the broker does
        declaration = msgspec.structs.replace(declaration, durable=False)
    unnamed = not declaration.name and not command.passive
    if unnamed:
        place = shard.context.place  # alike on all lanes
        mark = shard.context.events.next_seq if place is None else "-".join(map(str, place))
        name = f"amq.gen-{mark}"
        declaration = msgspec.structs.replace(declaration, name=name)
    if command.passive or declaration.name in shard.context.vhost.queues:
        access: Access | None = None if command.passive else "configure"
        queue = usable_queue(shard, actor, declaration.name, access)
        if isinstance(queue, Refusal):
            return queue
        if not command.passive:
            refusal = inequivalent_queue(
                queue.declaration, declaration, vhost_name(shard), shard.context.config.compat
            )
            if refusal is not None:
                return refusal
    else:
        refusal = refuse_declaration(shard, actor, declaration, unnamed=unnamed)
        if refusal is not None:
            return refusal
        queue = lifecycle.declare_queue(shard, declaration)
        if declaration.exclusive:
            lifecycle.own_queue(shard, actor, queue, command.lease_ms)
    queue.touch()
    return {"queue": queue.name, "ready": queue.ready, "consumers": queue.consumer_count()}


def refuse_declaration(
    shard: ShardState, actor: Actor, declaration: Declaration, *, unnamed: bool = False
) -> Refusal | None:
    """Why this user may not declare the queue; None if allowed, or if it is declared already.

    Args:
        unnamed: the broker chose the name, so it may begin with `amq.`.
    """
    context = shard.context
    vhost = vhost_name(shard)
    known = context.vhost.queues.get(declaration.name)
    if known is not None:
        forbidden = refuse_access(shard, actor, [("configure", "queue", declaration.name)])
        return forbidden or inequivalent_queue(known, declaration, vhost, context.config.compat)
    if unnamed and declaration.queue_type == "quorum":
        return precondition_failed(
            "Cannot declare a server-named queue for type rabbit_quorum_queue"
        )
    wrong = refuse_queue(declaration, vhost, context.config.compat, server_named=unnamed)
    if wrong is not None and declaration.name.startswith(RESERVED_PREFIX) and not unnamed:
        return wrong  # whoever declares it
    return (
        refuse_access(shard, actor, [("configure", "queue", declaration.name)])
        or limits.refuse_queue(
            context.vhost.limits, len(context.vhost.queues), declaration.name, vhost
        )
        or refuse_access(shard, actor, needs_to_declare_queue(declaration))
        or wrong
        or _refuse_single_active(shard, declaration)
    )


def _refuse_single_active(shard: ShardState, declaration: Declaration) -> Refusal | None:
    """540 on several lanes, which would each have an active consumer."""
    if declaration.arguments.get(SINGLE_ACTIVE_CONSUMER) is not True:
        return None
    if shard.context.vhost.settings(declaration).single_lane:
        return None
    return refuse_on_lanes(shard.context.config, SINGLE_ACTIVE_CONSUMER)


def usable_queue(
    shard: ShardState, actor: Actor, name: str, access: Access | None
) -> Queue | Refusal:
    """A queue, or why this actor may not use it: 404, 403, 405."""
    if access is not None:
        forbidden = refuse_access(shard, actor, [(access, "queue", name)])
        if forbidden is not None:
            return forbidden
    if name not in shard.context.vhost.queues:
        return no_queue(name, vhost_name(shard))
    queue = shard.queues.named(name)
    if queue.declaration.exclusive:
        channel = shard.channels.get(actor.user, actor.channel)
        if channel is None or channel.owner != queue.owner:
            return exclusive_queue(name, vhost_name(shard))
    return queue


def delete_queue(shard: ShardState, actor: Actor, command: commands.DeleteQueue) -> Result:
    """Delete a queue; a missing one is not an error."""
    name = command.queue
    forbidden = refuse_access(shard, actor, [("configure", "queue", name)])
    if forbidden is not None:
        return forbidden
    if name not in shard.context.vhost.queues:
        return {"deleted_ready": 0}
    queue = usable_queue(shard, actor, name, None)
    if isinstance(queue, Refusal):
        return queue
    if command.if_unused and queue.line.consumers:
        return queue_in_use(name, vhost_name(shard))
    if command.if_empty:
        refusal = refuse_on_lanes(shard.context.config, "if-empty")
        if refusal is not None or queue.ready:
            return refusal or queue_not_empty(name, vhost_name(shard))
    return {"deleted_ready": lifecycle.delete_queue(shard, queue, "deleted")}


def depth(shard: ShardState, actor: Actor, command: commands.Depth) -> Result:
    """Count the ready messages; this is a use of the queue (R-QEXP-2)."""
    queue = usable_queue(shard, actor, command.queue, None)
    if isinstance(queue, Refusal):
        return queue
    queue.touch()
    return {"ready": queue.ready}


def purge(shard: ShardState, actor: Actor, command: commands.Purge) -> Result:
    """Remove all ready messages."""
    queue = usable_queue(shard, actor, command.queue, "read")
    if isinstance(queue, Refusal):
        return queue
    return {"purged": lifecycle.purge_queue(shard, queue)}
