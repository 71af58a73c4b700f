"""What all handlers share: access checks, and the events of changes."""

from collections.abc import Callable
from typing import Any

from streaming.broker.events import Actor, Kind
from streaming.broker.shard_state import ShardState
from topology.declarations import Exchange, Permission, Policy, Queue, TopicPermission, VhostLimits
from topology.definitions.objects import declaration_document
from topology.permissions import Need
from topology.refusals import Refusal

Result = dict[str, Any] | Refusal
Handler = Callable[[ShardState, Actor, Any], Result]
"""Carries out a command: the shard, who sent it, the command."""


def vhost_name(shard: ShardState) -> str:
    """The name of the shard's vhost, for error messages."""
    return shard.context.config.vhost


def refuse_access(shard: ShardState, actor: Actor, needs: list[Need]) -> Refusal | None:
    """403 if the user lacks a permission."""
    return shard.context.vhost.refuse_access(actor.user, needs, vhost_name(shard))


def refuse_administration(
    shard: ShardState, actor: Actor, act: str = "change policies or permissions"
) -> Refusal | None:
    """403 if the user is not an administrator, who alone may do this."""
    return shard.context.vhost.refuse_administration(actor.user, vhost_name(shard), act)


def record_change(shard: ShardState, what: str, name: str, detail: dict[str, Any]) -> None:
    """Record that the vhost changed; caches that depend on it become invalid."""
    shard.context.vhost.version += 1
    shard.context.events.add(Kind.TOPOLOGY, detail={"what": what, "name": name, **detail})


def record_declaration(
    shard: ShardState,
    what: str,
    name: str,
    detail: dict[str, Any],
    declaration: Exchange | Queue | Policy | Permission | TopicPermission | VhostLimits,
) -> None:
    """Record a change with all of what was declared, so that the tables alone tell the topology."""
    record_change(shard, what, name, {**detail, "declaration": declaration_document(declaration)})


def record_channel(shard: ShardState, what: str, queue: str, detail: dict[str, Any]) -> int:
    """Record what happened to a channel or consumer; return the row of the event."""
    return shard.context.events.add(Kind.CHANNEL, queue, detail={"what": what, **detail})
