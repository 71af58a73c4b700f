"""Commands about policies, permissions, limits and parameters; what policies change at once."""

from collections.abc import Sequence

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers.access import (
    Result,
    record_change,
    record_declaration,
    refuse_administration,
)
from streaming.broker.handlers.lifecycle import timeout_changed
from streaming.broker.shard_state import ShardState
from topology.declarations import Permission, Policy, TopicPermission, VhostLimits
from topology.errors import UnsupportedPatternError
from topology.limits import with_limit
from topology.policies import QueueSettings
from topology.refusals import Refusal, precondition_failed
from topology.validation import refuse

# -- policies


def set_policy(
    shard: ShardState, actor: Actor, command: commands.SetPolicy | commands.SetOperatorPolicy
) -> Result:
    """Create or replace a policy or operator policy."""
    operator = isinstance(command, commands.SetOperatorPolicy)
    policy = command.policy
    refusal = refuse_policy(shard, actor, policy, operator=operator)
    if refusal is not None:
        return refusal
    put_in_force(shard, () if operator else (policy,), (policy,) if operator else ())
    return {}


def refuse_policy(
    shard: ShardState, actor: Actor, policy: Policy, *, operator: bool
) -> Refusal | None:
    """Why this user may not set the policy."""
    config = shard.context.config
    return refuse_administration(shard, actor) or refuse.refuse_policy(
        policy, config.compat, operator=operator
    )


def put_in_force(shard: ShardState, ordinary: Sequence[Policy], operator: Sequence[Policy]) -> None:
    """Put policies that are not refused in force, together and at once (R-POL-8).

    However many policies there are, the settings of all queues are computed once; without any,
    not at all: an import in very many parts has none in most of them.
    """
    if not ordinary and not operator:
        return
    policies = shard.context.vhost.policies
    before = _all_settings(shard)
    policies.load(ordinary)
    for policy in ordinary:
        record_declaration(shard, "policy_set", "", {"policy": policy.name}, policy)
    policies.load(operator, operator=True)
    for policy in operator:
        record_declaration(shard, "operator_policy_set", "", {"policy": policy.name}, policy)
    _apply_changed_settings(shard, before)


def clear_policy(
    shard: ShardState, actor: Actor, command: commands.ClearPolicy | commands.ClearOperatorPolicy
) -> Result:
    """Remove a policy or operator policy; a missing one is not an error."""
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    operator = isinstance(command, commands.ClearOperatorPolicy)
    before = _all_settings(shard)
    if shard.context.vhost.policies.clear(command.name, operator=operator):
        what = "operator_policy_cleared" if operator else "policy_cleared"
        record_change(shard, what, "", {"policy": command.name})
        _apply_changed_settings(shard, before)
    return {}


def _all_settings(shard: ShardState) -> dict[str, QueueSettings]:
    return {
        name: shard.queues.settings_for(declaration)
        for name, declaration in shard.context.vhost.queues.items()
    }


def _apply_changed_settings(shard: ShardState, before: dict[str, QueueSettings]) -> None:
    shard.context.vhost.update_alternates()
    after = _all_settings(shard)
    changed = [name for name in sorted(after) if after[name] != before[name]]
    channels: set[int] = set()
    for name in changed:
        queue = shard.queues.named(name)
        queue.apply_settings(after[name])
        if after[name].consumer_timeout_ms != before[name].consumer_timeout_ms:
            channels.update(queue.unacked_on)
    timeout_changed(shard, sorted(channels))  # each once: one may consume from all of them
    at_least_once = shard.dead_lettering.at_least_once
    for name in changed:
        queue = shard.queues.named(name)
        at_least_once.release_unwanted(queue)
        queue.settings_changed()
        at_least_once.retry_unrouted(queue)
        shard.dead_lettering.cascade()


# -- permissions


def set_permissions(shard: ShardState, actor: Actor, command: commands.SetPermissions) -> Result:
    """Set a user's permissions."""
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    permission = Permission(command.user, command.configure, command.write, command.read)
    try:
        add_permission(shard, permission)
    except UnsupportedPatternError as error:
        return precondition_failed(str(error))
    return {}


def add_permission(shard: ShardState, permission: Permission) -> None:
    """Set permissions; UnsupportedPatternError if a pattern cannot be used."""
    shard.context.vhost.permissions.set(permission)
    record_declaration(shard, "permissions_set", "", {"user": permission.user}, permission)


def clear_permissions(
    shard: ShardState, actor: Actor, command: commands.ClearPermissions
) -> Result:
    """Remove a user's permissions."""
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    if shard.context.vhost.permissions.clear(command.user):
        record_change(shard, "permissions_cleared", "", {"user": command.user})
    return {}


# -- topic permissions


def set_topic_permissions(
    shard: ShardState, actor: Actor, command: commands.SetTopicPermissions
) -> Result:
    """Set which keys of a topic exchange a user may use."""
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    permission = TopicPermission(command.user, command.exchange, command.write, command.read)
    try:
        add_topic_permission(shard, permission)
    except UnsupportedPatternError as error:
        return precondition_failed(str(error))
    return {}


def add_topic_permission(shard: ShardState, permission: TopicPermission) -> None:
    """Set a topic permission; UnsupportedPatternError if a pattern cannot be used."""
    shard.context.vhost.topic_permissions.set(permission)
    user, exchange = permission.user, permission.exchange
    detail = {"user": user, "exchange": exchange}
    record_declaration(shard, "topic_permissions_set", "", detail, permission)


def clear_topic_permissions(
    shard: ShardState, actor: Actor, command: commands.ClearTopicPermissions
) -> Result:
    """Let a user use all keys again, of one exchange or of all."""
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    for one in shard.context.vhost.topic_permissions.clear(command.user, command.exchange):
        detail = {"user": one.user, "exchange": one.exchange}
        record_change(shard, "topic_permissions_cleared", "", detail)
    return {}


# -- limits


def set_limit(shard: ShardState, actor: Actor, command: commands.SetVhostLimit) -> Result:
    """Set a limit of the vhost; below 0 it is none."""
    return _change_limit(shard, actor, command.limit, command.value)


def clear_limit(shard: ShardState, actor: Actor, command: commands.ClearVhostLimit) -> Result:
    """Remove a limit of the vhost; a missing one is not an error."""
    return _change_limit(shard, actor, command.limit, None)


def _change_limit(shard: ShardState, actor: Actor, name: str, value: int | None) -> Result:
    refusal = refuse_administration(shard, actor, "change limits")
    if refusal is not None:
        return refusal
    vhost = shard.context.vhost
    put_limits(shard, with_limit(vhost.limits, name, value))
    return {}


def put_limits(shard: ShardState, limits: VhostLimits) -> None:
    """Put limits in force; what exists stays."""
    vhost = shard.context.vhost
    if limits != vhost.limits:
        vhost.limits = limits
        record_declaration(shard, "limits_set", limits.name, {}, limits)


# -- parameters


def set_parameter(shard: ShardState, actor: Actor, command: commands.SetParameter) -> Result:
    """Keep a parameter; a later one of its name replaces it."""
    refusal = refuse_administration(shard, actor, "set parameters")
    if refusal is not None:
        return refusal
    key = command.component, command.name
    shard.context.vhost.parameters[key] = command.value, command.secret
    detail = {"component": command.component, "value": command.value}
    record_change(shard, "parameter_set", command.name, detail)
    return {}
