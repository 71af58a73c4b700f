"""Commands about exchanges and bindings."""

from typing import Any

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers import lifecycle
from streaming.broker.handlers.access import (
    Result,
    record_change,
    record_declaration,
    refuse_access,
    vhost_name,
)
from streaming.broker.handlers.queues import usable_queue
from streaming.broker.shard_state import ShardState
from topology.declarations import Binding, Exchange
from topology.permissions import needs_to_bind, needs_to_declare_exchange
from topology.refusals import (
    Refusal,
    default_exchange,
    exchange_in_use,
    no_exchange,
    refuse_exchange_deletion,
)
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.validation import refuse
from topology.values import table_to_json

# -- exchanges


def declare_exchange(shard: ShardState, actor: Actor, command: commands.DeclareExchange) -> Result:
    """Declare an exchange, or check that it exists (`passive`)."""
    exchange = command.exchange
    if command.passive and not exchange.name:
        return default_exchange()
    if command.passive:
        known = exchange.name in shard.context.vhost.router.exchanges
        return {} if known else no_exchange(exchange.name, vhost_name(shard))
    refusal = refuse_exchange(shard, actor, exchange)
    if refusal is not None:
        return refusal
    add_exchange(shard, exchange)
    return {}


def refuse_exchange(shard: ShardState, actor: Actor, exchange: Exchange) -> Refusal | None:
    """Why this user may not declare the exchange; None if allowed, or if it is declared already."""
    vhost, compat = vhost_name(shard), shard.context.config.compat
    known = shard.context.vhost.router.exchanges.get(exchange.name)
    if known is None:
        wrong = refuse.refuse_exchange(exchange, vhost, compat)
    else:
        wrong = refuse.inequivalent_exchange(known, exchange, vhost, compat)
    if wrong is not None and (exchange.type not in EXCHANGE_TYPES or not exchange.name):
        return wrong  # whoever declares it
    forbidden = refuse_access(shard, actor, [("configure", "exchange", exchange.name)])
    if forbidden is not None or wrong is not None or known is not None:
        return forbidden or wrong
    return refuse_access(shard, actor, needs_to_declare_exchange(exchange))


def add_exchange(shard: ShardState, exchange: Exchange) -> None:
    """Declare an exchange that is not refused; an existing one stays as it is."""
    vhost = shard.context.vhost
    if exchange.name not in vhost.router.exchanges:
        vhost.router.declare_exchange(exchange, vhost.policies.exchange_alternate(exchange))
        record_declaration(
            shard, "exchange_declared", exchange.name, {"type": exchange.type}, exchange
        )


def delete_exchange(shard: ShardState, actor: Actor, command: commands.DeleteExchange) -> Result:
    """Delete an exchange; a missing one is not an error."""
    name = command.exchange
    router = shard.context.vhost.router
    refusal = refuse_exchange_deletion(name, vhost_name(shard)) or refuse_access(
        shard, actor, [("configure", "exchange", name)]
    )
    if refusal is not None:
        return refusal
    if name not in router.exchanges:
        return {}
    in_use = command.if_unused and router.bindings.any_from(name)
    if in_use or _is_queue_alternate(shard, name):
        return exchange_in_use(name, vhost_name(shard))
    lifecycle.delete_exchange(shard, name)
    return {}


def _is_queue_alternate(shard: ShardState, name: str) -> bool:
    """Whether a queue names the exchange as its alternate (R-QPID-9)."""
    settings = shard.context.vhost.all_settings()
    return any(of_queue.alternate_exchange == name for of_queue in settings.values())


# -- bindings


def bind(shard: ShardState, actor: Actor, command: commands.Bind) -> Result:
    """Add a binding."""
    refusal = _refuse_binding(shard, actor, command.binding)
    if refusal is not None:
        return refusal
    add_binding(shard, command.binding)
    return {}


def _refuse_binding(shard: ShardState, actor: Actor, binding: Binding) -> Refusal | None:
    vhost = vhost_name(shard)
    router = shard.context.vhost.router
    refusal = _refuse_access(shard, actor, binding)
    if refusal is not None:
        return refusal
    if binding.source not in router.exchanges:
        return no_exchange(binding.source, vhost)
    if binding.destination_type == "queue":
        queue = usable_queue(shard, actor, binding.destination, None)
        if isinstance(queue, Refusal):
            is_there = binding.destination in shard.context.vhost.queues
            return (refuse_binding_key(shard, binding) if is_there else None) or queue
    elif binding.destination not in router.exchanges:
        return no_exchange(binding.destination, vhost)
    return refuse_binding_key(shard, binding)


def refuse_binding_key(shard: ShardState, binding: Binding) -> Refusal | None:
    """Why the source exchange, if it exists, may not have a binding with that key."""
    source = shard.context.vhost.router.exchanges.get(binding.source)
    if source is None:
        return None
    return refuse.refuse_binding(binding, source.type)


def add_binding(shard: ShardState, binding: Binding) -> None:
    """Add a binding that is not refused; an existing one stays (R-ROUTE-12)."""
    if shard.context.vhost.router.bind(binding):
        record_change(shard, "bound", binding.destination, _binding_detail(binding))


def unbind(shard: ShardState, actor: Actor, command: commands.Unbind) -> Result:
    """Remove a binding; a missing one is not an error."""
    binding = command.binding
    refusal = _refuse_access(shard, actor, binding)
    if refusal is not None:
        return refusal
    router = shard.context.vhost.router
    if binding not in router.bindings:
        return {}
    if binding.destination_type == "queue":
        queue = usable_queue(shard, actor, binding.destination, None)
        if isinstance(queue, Refusal):
            return queue
    router.unbind(binding)
    record_change(shard, "unbound", binding.destination, _binding_detail(binding))
    lifecycle.auto_delete_sources(shard, [binding])
    return {}


def _refuse_access(shard: ShardState, actor: Actor, binding: Binding) -> Refusal | None:
    """403 if the user may not bind and unbind there, or nobody may."""
    to_destination, to_source = needs_to_bind(binding)
    refusal = refuse_access(shard, actor, [to_destination])
    if refusal is None and _touches_default_exchange(binding):
        refusal = default_exchange()
    refusal = refusal or refuse_access(shard, actor, [to_source])
    if refusal is not None:
        return refusal
    vhost = shard.context.vhost
    source = vhost.router.exchanges.get(binding.source)
    if source is None:
        return None
    keys = (binding.routing_key,)
    return vhost.refuse_topics(actor.user, "read", source, keys, vhost_name(shard))


def _binding_detail(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": table_to_json(binding.arguments),
    }


def _touches_default_exchange(binding: Binding) -> bool:
    return not binding.source or (
        binding.destination_type == "exchange" and not binding.destination
    )
