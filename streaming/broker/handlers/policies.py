"""Commands about policies and permissions, and what policies change at once."""

from collections.abc import Sequence

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers.access import (
    Result,
    record_change,
    record_declaration,
    refuse_administration,
)
from streaming.broker.shard_state import ShardState
from topology.declarations import Permission, Policy
from topology.errors import UnsupportedPatternError
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

    However many policies there are, the settings of all queues are computed once.
    """
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
    for name in changed:
        shard.queues.named(name).apply_settings(after[name])
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
