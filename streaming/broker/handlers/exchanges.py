"""Commands about exchanges and bindings; an auto-delete exchange goes with its last binding."""

from __future__ import annotations

from typing import Any

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers.access import Handler, Result, TopologyCommands
from topology.declarations import Binding, Exchange
from topology.permissions import needs_to_bind, needs_to_declare_exchange
from topology.refusals import (
    Refusal,
    default_exchange,
    exchange_in_use,
    no_exchange,
    refuse_exchange_deletion,
)
from topology.validation.refuse import inequivalent_exchange, refuse_binding, refuse_exchange


class ExchangeCommands(TopologyCommands):
    """Those of one shard."""

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            commands.DeclareExchange: self._declare_exchange,
            commands.DeleteExchange: self._delete_exchange,
            commands.Bind: self._bind,
            commands.Unbind: self._unbind,
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
            for declaration in topology.queues.values()
        )

    def _remove_exchange(self, name: str) -> None:
        removed = self._shard.topology.router.delete_exchange(name)
        self._changed("exchange_deleted", name, {})
        self.auto_delete_sources(removed)

    def auto_delete_sources(self, removed: list[Binding]) -> None:
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
            queue = self._shard.administration.queues.usable_queue(actor, binding.destination, None)
            if isinstance(queue, Refusal):
                return queue
        elif binding.destination not in router.exchanges:
            return no_exchange(binding.destination, self._vhost)
        return refuse_binding(binding, source.type)

    def refuse_key(self, binding: Binding) -> Refusal | None:
        """Why the exchange it leaves, if it exists, may not have a binding of that key."""
        source = self._shard.topology.router.exchanges.get(binding.source)
        return None if source is None else refuse_binding(binding, source.type)

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
            self.auto_delete_sources([binding])
        return {}


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
