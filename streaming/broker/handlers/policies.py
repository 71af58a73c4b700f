"""Commands about policies and permissions: whom they need, and what changes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers.access import Handler, Result, TopologyCommands
from streaming.broker.lanes import refuse_policy_on_lanes
from topology.declarations import Permission, Policy
from topology.errors import UnsupportedPatternError
from topology.refusals import Refusal, precondition_failed
from topology.validation.refuse import refuse_policy

if TYPE_CHECKING:
    from collections.abc import Sequence


class PolicyCommands(TopologyCommands):
    """Those of one shard."""

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            commands.SetPolicy: lambda actor, command: self._set_policy(
                actor, command.policy, operator=False
            ),
            commands.SetOperatorPolicy: lambda actor, command: self._set_policy(
                actor, command.policy, operator=True
            ),
            commands.ClearPolicy: lambda actor, command: self._clear_policy(
                actor, command.name, operator=False
            ),
            commands.ClearOperatorPolicy: lambda actor, command: self._clear_policy(
                actor, command.name, operator=True
            ),
            commands.SetPermissions: self._set_permissions,
            commands.ClearPermissions: self._clear_permissions,
        }

    # -- policies

    def _set_policy(self, actor: Actor, policy: Policy, *, operator: bool) -> Result:
        refusal = self.refuse_policy(actor, policy, operator=operator)
        if refusal is not None:
            return refusal
        self.set_policies(() if operator else (policy,), (policy,) if operator else ())
        return {}

    def refuse_policy(self, actor: Actor, policy: Policy, *, operator: bool) -> Refusal | None:
        """Why the policy may not be set."""
        config = self._shard.config
        return (
            self._not_administrator(actor)
            or refuse_policy(policy, config.compat, operator=operator)
            or refuse_policy_on_lanes(policy, config)
        )

    def set_policies(self, ordinary: Sequence[Policy], operator: Sequence[Policy]) -> None:
        """Put policies that are not refused in force, together and at once (R-POL-8).

        All queues are looked at once, however many policies there are.
        """
        policies = self._shard.topology.policies
        before = self._all_settings()
        policies.load(ordinary)
        for policy in ordinary:
            self._changed("policy_set", "", {"policy": policy.name})
        policies.load(operator, operator=True)
        for policy in operator:
            self._changed("operator_policy_set", "", {"policy": policy.name})
        self._apply_changed_settings(before)

    def _clear_policy(self, actor: Actor, name: str, *, operator: bool) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        topology = self._shard.topology
        before = self._all_settings()
        if topology.policies.clear(name, operator=operator):
            kind = "operator_policy_cleared" if operator else "policy_cleared"
            self._changed(kind, "", {"policy": name})
            self._apply_changed_settings(before)
        return {}

    def _all_settings(self) -> dict[str, Any]:
        shard = self._shard
        return {
            name: shard.queues.settings_for(declaration)
            for name, declaration in shard.topology.queues.items()
        }

    def _apply_changed_settings(self, before: dict[str, Any]) -> None:
        shard = self._shard
        shard.topology.update_alternates()
        after = self._all_settings()
        changed = [name for name in sorted(after) if after[name] != before[name]]
        for name in changed:
            shard.queues.named(name).apply_settings(after[name])
        for name in changed:
            shard.queues.named(name).settings_changed()
            shard.cascade()

    # -- permissions

    def _set_permissions(self, actor: Actor, command: commands.SetPermissions) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        permission = Permission(command.user, command.configure, command.write, command.read)
        try:
            self.set_permission(permission)
        except UnsupportedPatternError as error:
            return precondition_failed(str(error))
        return {}

    def set_permission(self, permission: Permission) -> None:
        """Give a user permissions; UnsupportedPatternError if a pattern cannot be used."""
        self._shard.topology.permissions.set(permission)
        self._changed("permissions_set", "", {"user": permission.user})

    def _clear_permissions(self, actor: Actor, command: commands.ClearPermissions) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        if self._shard.topology.permissions.clear(command.user):
            self._changed("permissions_cleared", "", {"user": command.user})
        return {}
