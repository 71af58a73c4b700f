"""Commands that change the topology, and what their changes do to queues and messages at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappush
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.broker import commands
from streaming.broker.definitions_import import import_definitions
from streaming.broker.events import Actor, Kind
from streaming.broker.lanes import not_on_lanes, refuse_on_lanes, refuse_policy_on_lanes
from streaming.broker.message import NEVER
from streaming.broker.timers import TimerKind
from topology.declarations import Binding, DestinationType, Exchange, Permission, Policy
from topology.declarations import Queue as Declaration
from topology.errors import Refusal, UnsupportedPatternError, precondition_failed
from topology.permissions import (
    needs_to_bind,
    needs_to_declare_exchange,
    needs_to_declare_queue,
)
from topology.refusals import (
    default_exchange,
    exchange_in_use,
    exclusive_queue,
    no_exchange,
    no_queue,
    queue_in_use,
    queue_not_empty,
    refuse_exchange_deletion,
)
from topology.validation import (
    inequivalent_exchange,
    inequivalent_queue,
    refuse_binding,
    refuse_exchange,
    refuse_policy,
    refuse_queue,
)

if TYPE_CHECKING:
    from streaming.broker.message import Copy
    from streaming.broker.queue import Queue
    from streaming.broker.shard import Shard
    from topology.permissions import Access

Result = dict[str, Any] | Refusal
Handler = Callable[[Actor, Any], Result]


class Administration:
    """The topology commands of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            commands.DeclareExchange: self._declare_exchange,
            commands.DeclareQueue: self._declare_queue,
            commands.DeleteExchange: self._delete_exchange,
            commands.DeleteQueue: self._delete_queue,
            commands.Bind: self._bind,
            commands.Unbind: self._unbind,
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
            commands.ImportDefinitions: self._import,
            commands.Depth: self._depth,
            commands.Purge: self._purge,
        }

    # -- exchanges

    def _declare_exchange(self, actor: Actor, command: commands.DeclareExchange) -> Result:
        router = self._shard.topology.router
        exchange = command.exchange
        if command.passive:
            known = exchange.name in router.exchanges
            return {} if known else no_exchange(exchange.name, self._vhost)
        refusal = self.refuse_exchange(actor, exchange)
        if refusal is not None:
            return refusal
        self.declare_exchange(exchange)
        return {}

    def refuse_exchange(self, actor: Actor, exchange: Exchange) -> Refusal | None:
        """Why the exchange may not be declared by this user; None if it may, or is declared so."""
        known = self._shard.topology.router.exchanges.get(exchange.name)
        if known is not None:
            return self._forbidden(
                actor, [("configure", "exchange", exchange.name)]
            ) or inequivalent_exchange(known, exchange, self._vhost)
        return refuse_exchange(exchange, self._vhost) or self._forbidden(
            actor, needs_to_declare_exchange(exchange)
        )

    def declare_exchange(self, exchange: Exchange) -> None:
        """Declare an exchange that is not refused; one that exists stays."""
        topology = self._shard.topology
        if exchange.name in topology.router.exchanges:
            return
        topology.router.declare_exchange(exchange, topology.policies.exchange_alternate(exchange))
        self._changed("exchange_declared", exchange.name, {"type": exchange.type})

    def _delete_exchange(self, actor: Actor, command: commands.DeleteExchange) -> Result:
        name = command.exchange
        topology = self._shard.topology
        refusal = refuse_exchange_deletion(name, self._vhost) or self._forbidden(
            actor, [("configure", "exchange", name)]
        )
        if refusal is not None:
            return refusal
        if name not in topology.router.exchanges:
            return {}
        in_use = command.if_unused and topology.router.has_bindings_from(name)
        if in_use or self._is_queue_alternate(name):
            return exchange_in_use(name, self._vhost)
        self._remove_exchange(name)
        return {}

    def _is_queue_alternate(self, name: str) -> bool:
        """R-QPID-9."""
        topology = self._shard.topology
        return any(
            topology.settings(declaration).alternate_exchange == name
            for _number, declaration in topology.queues.values()
        )

    def _remove_exchange(self, name: str) -> None:
        removed = self._shard.topology.router.delete_exchange(name)
        self._changed("exchange_deleted", name, {})
        self._auto_delete_sources(removed)

    def _auto_delete_sources(self, removed: list[Binding]) -> None:
        """An auto-delete exchange goes with the last binding from it."""
        router = self._shard.topology.router
        for source in sorted({binding.source for binding in removed}):
            exchange = router.exchanges.get(source)
            if (
                exchange is not None
                and exchange.auto_delete
                and not router.has_bindings_from(source)
            ):
                self._remove_exchange(source)

    # -- queues

    def _declare_queue(self, actor: Actor, command: commands.DeclareQueue) -> Result:
        shard = self._shard
        declaration = command.queue
        unnamed = not declaration.name and not command.passive
        if unnamed:
            name = f"amq.gen-{shard.events.first_seq + len(shard.events)}"
            declaration = msgspec.structs.replace(declaration, name=name)
        if command.passive or declaration.name in shard.topology.queues:
            access: Access | None = None if command.passive else "configure"
            queue = self.usable_queue(actor, declaration.name, access)
            if isinstance(queue, Refusal):
                return queue
            if not command.passive:
                refusal = inequivalent_queue(queue.declaration, declaration, self._vhost)
                if refusal is not None:
                    return refusal
        else:
            refusal = self.refuse_queue(actor, declaration, unnamed=unnamed)
            if refusal is not None:
                return refusal
            queue = self.declare_queue(declaration)
            if declaration.exclusive:
                queue.owner = shard.channels.open(actor.user, actor.channel).number
        queue.touch()
        return {"queue": queue.name, "ready": queue.ready, "consumers": len(queue.consumers)}

    def refuse_queue(
        self, actor: Actor, declaration: Declaration, *, unnamed: bool = False
    ) -> Refusal | None:
        """Why the queue may not be declared by this user; None if it may, or is declared so.

        Args:
            unnamed: the name is of the broker's making, and may be one of the broker's own.
        """
        shard = self._shard
        known = shard.topology.queues.get(declaration.name)
        if known is not None:
            return self._forbidden(
                actor, [("configure", "queue", declaration.name)]
            ) or inequivalent_queue(known[1], declaration, self._vhost)
        if unnamed and shard.config.lanes > 1:
            return not_on_lanes(shard.config, "server-named queues")
        named = msgspec.structs.replace(declaration, name="(new)") if unnamed else declaration
        return (
            refuse_queue(named, self._vhost, shard.config.compat)
            or self._forbidden(actor, needs_to_declare_queue(declaration))
            or refuse_on_lanes(shard.topology.settings(declaration), declaration, shard.config)
        )

    def declare_queue(self, declaration: Declaration) -> Queue:
        """Declare a queue that is not refused; one that exists stays."""
        shard = self._shard
        known = shard.topology.queues.get(declaration.name)
        if known is not None:
            return shard.queue(declaration.name)
        number = shard.topology.add_queue(declaration)
        queue = shard.new_queue(number, declaration)
        queue.touch()
        self._changed("queue_declared", declaration.name, {"type": declaration.queue_type})
        return queue

    def usable_queue(self, actor: Actor, name: str, access: Access | None) -> Queue | Refusal:
        """A queue, or why this actor may not use it: 404, 403, 405."""
        shard = self._shard
        if access is not None:
            forbidden = self._forbidden(actor, [(access, "queue", name)])
            if forbidden is not None:
                return forbidden
        if name not in shard.topology.queues:
            return no_queue(name, self._vhost)
        queue = shard.queue(name)
        if queue.declaration.exclusive:
            channel = shard.channels.get(actor.user, actor.channel)
            if channel is None or channel.number != queue.owner:
                return exclusive_queue(name, self._vhost)
        return queue

    def _delete_queue(self, actor: Actor, command: commands.DeleteQueue) -> Result:
        name = command.queue
        forbidden = self._forbidden(actor, [("configure", "queue", name)])
        if forbidden is not None:
            return forbidden
        if name not in self._shard.topology.queues:
            return {"deleted_ready": 0}
        queue = self.usable_queue(actor, name, None)
        if isinstance(queue, Refusal):
            return queue
        if command.if_unused and queue.consumers:
            return queue_in_use(name, self._vhost)
        if command.if_empty and queue.ready:
            return queue_not_empty(name, self._vhost)
        return {"deleted_ready": self.delete_queue(queue, "deleted")}

    def delete_queue(self, queue: Queue, cause: str) -> int:
        """Delete a queue: nothing is dead-lettered (R-GONE-2), orphans may be rerouted (R-QPID-1).

        Args:
            cause: `deleted`, `expired`, `auto_delete` or `exclusive`.

        Returns:
            How many copies were ready.
        """
        shard = self._shard
        ready = queue.ready
        copies = queue.take_everything()
        for channel_number in list(queue.unacked_on):
            channel = shard.channels.by_number(channel_number)
            for stream in list(channel.streams.values()):
                for delivery in stream.take_of_queue(queue.number):
                    queue.reclaim(channel_number, delivery.copy)
                    copies.append(delivery.copy)
        copies.sort(key=queue.place)
        copies.extend(shard.at_least_once.take_all(queue))
        for channel_number, stream_number in queue.consumers:
            stream = shard.channels.by_number(channel_number).streams[stream_number]
            stream.active = False
            shard.sessions.note_cancelled(queue, stream)
        queue.consumers.clear()
        queue.waiting.clear()
        removed = shard.topology.remove_queue(queue.name)
        shard.topology_changed()
        self._let_go(queue, copies)
        self._note("queue_deleted", queue.name, {"cause": cause, "ready": ready})
        shard.drop_queue(queue)
        self._auto_delete_sources(removed)
        shard.cascade()  # orphans arrive before anything else is deleted
        return ready

    def _let_go(self, queue: Queue, copies: list[Copy]) -> None:
        shard = self._shard
        for copy in copies:
            if queue.settings.alternate_exchange is not None:
                shard.rerouting.reroute(queue, copy, "orphaned")
            else:
                shard.events.add(Kind.DELETED, queue.name, copy)

    def queue_expiry_due(self, number: int, due_ms: int) -> None:
        """A queue may have been unused for too long (R-QEXP-1)."""
        shard = self._shard
        queue = shard.queue_by_number(number)
        if queue is None or queue.expiry_timer_ms != due_ms:
            return
        queue.expiry_timer_ms = NEVER
        expires_at_ms = queue.expires_at_ms()
        if expires_at_ms == NEVER:
            return
        expires_at_ms = shard.moved_on(expires_at_ms)
        if expires_at_ms <= shard.now_ms:
            self.delete_queue(queue, "expired")
        else:
            queue.expiry_timer_ms = expires_at_ms
            heappush(shard.timers, (expires_at_ms, TimerKind.EXPIRE_QUEUE, number))

    def _depth(self, actor: Actor, command: commands.Depth) -> Result:
        queue = self.usable_queue(actor, command.queue, None)
        if isinstance(queue, Refusal):
            return queue
        queue.touch()
        return {"ready": queue.ready}

    def _purge(self, actor: Actor, command: commands.Purge) -> Result:
        queue = self.usable_queue(actor, command.queue, "read")
        if isinstance(queue, Refusal):
            return queue
        copies = queue.take_everything()
        for copy in copies:
            self._shard.events.add(Kind.PURGED, queue.name, copy)
        queue.settled()
        return {"purged": len(copies)}

    # -- bindings

    def _bind(self, actor: Actor, command: commands.Bind) -> Result:
        refusal = self.refuse_binding(actor, command.binding)
        if refusal is not None:
            return refusal
        self.bind(command.binding)
        return {}

    def refuse_binding(self, actor: Actor, binding: Binding) -> Refusal | None:
        """Why the binding may not be made by this user."""
        router = self._shard.topology.router
        refusal = self._forbidden(actor, needs_to_bind(binding))
        if refusal is not None:
            return refusal
        if _touches_default_exchange(binding):
            return default_exchange()
        source = router.exchanges.get(binding.source)
        if source is None:
            return no_exchange(binding.source, self._vhost)
        if binding.destination_type == "queue":
            queue = self.usable_queue(actor, binding.destination, None)
            if isinstance(queue, Refusal):
                return queue
        elif binding.destination not in router.exchanges:
            return no_exchange(binding.destination, self._vhost)
        return refuse_binding(binding, self._vhost, source.type)

    def refuse_key(self, binding: Binding) -> Refusal | None:
        """Why the exchange it leaves, if it exists, may not have a binding of that key."""
        source = self._shard.topology.router.exchanges.get(binding.source)
        return None if source is None else refuse_binding(binding, self._vhost, source.type)

    def existing(self) -> Iterator[tuple[DestinationType, str]]:
        """All exchanges and queues."""
        topology = self._shard.topology
        yield from (("exchange", name) for name in topology.router.exchanges)
        yield from (("queue", name) for name in topology.queues)

    def bind(self, binding: Binding) -> None:
        """Make a binding that is not refused; one that exists stays (R-ROUTE-12)."""
        if self._shard.topology.router.bind(binding):
            self._changed("bound", binding.destination, _binding_detail(binding))

    def _unbind(self, actor: Actor, command: commands.Unbind) -> Result:
        binding = command.binding
        refusal = self._forbidden(actor, needs_to_bind(binding))
        if refusal is not None:
            return refusal
        if _touches_default_exchange(binding):
            return default_exchange()
        if self._shard.topology.router.unbind(binding):
            self._changed("unbound", binding.destination, _binding_detail(binding))
            self._auto_delete_sources([binding])
        return {}

    # -- policies and permissions

    def _set_policy(self, actor: Actor, policy: Policy, *, operator: bool) -> Result:
        refusal = self.refuse_policy(actor, policy, operator=operator)
        if refusal is not None:
            return refusal
        self.set_policy(policy, operator=operator)
        return {}

    def refuse_policy(self, actor: Actor, policy: Policy, *, operator: bool) -> Refusal | None:
        """Why the policy may not be set."""
        config = self._shard.config
        return (
            self._not_administrator(actor)
            or refuse_policy(policy, operator, self._vhost, config.compat)
            or refuse_policy_on_lanes(policy, config)
        )

    def set_policy(self, policy: Policy, *, operator: bool) -> None:
        """Put a policy in force at once (R-POL-8)."""
        topology = self._shard.topology
        before = self._all_settings()
        topology.policies.set(policy, operator=operator)
        kind = "operator_policy_set" if operator else "policy_set"
        self._changed(kind, "", {"policy": policy.name})
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
            name: shard.settings_for(declaration)
            for name, (_number, declaration) in shard.topology.queues.items()
        }

    def _apply_changed_settings(self, before: dict[str, Any]) -> None:
        shard = self._shard
        shard.topology.renew_alternates()
        after = self._all_settings()
        changed = [name for name in sorted(after) if after[name] != before[name]]
        for name in changed:
            shard.queue(name).apply_settings(after[name])
        for name in changed:
            shard.queue(name).settings_changed()
            shard.cascade()

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

    def _import(self, actor: Actor, command: commands.ImportDefinitions) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        return import_definitions(self, actor, command.definitions, self._vhost)

    # -- common

    @property
    def _vhost(self) -> str:
        return self._shard.config.vhost

    def _forbidden(self, actor: Actor, needs: list[Any]) -> Refusal | None:
        return self._shard.topology.refuse(actor.user, needs, self._vhost)

    def _not_administrator(self, actor: Actor) -> Refusal | None:
        return self._shard.topology.refuse_administration(actor.user, self._vhost)

    def _changed(self, what: str, name: str, detail: dict[str, Any]) -> None:
        self._shard.topology_changed()
        self._note(what, name, detail)

    def _note(self, what: str, name: str, detail: dict[str, Any]) -> None:
        self._shard.events.add(Kind.TOPOLOGY, detail={"what": what, "name": name, **detail})


def _binding_detail(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
    }


def _touches_default_exchange(binding: Binding) -> bool:
    return not binding.source or (
        binding.destination_type == "exchange" and not binding.destination
    )
