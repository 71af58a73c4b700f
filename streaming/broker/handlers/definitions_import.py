"""Importing a definitions document into a vhost: all of it, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topology.definitions.json_object import MAX_PROBLEMS
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError
from topology.refusals import Refusal, precondition_failed

if TYPE_CHECKING:
    from streaming.broker.events import Actor
    from streaming.broker.handlers.administration import Administration
    from topology.declarations import DestinationType
    from topology.vhost import Vhost


def import_definitions(
    administration: Administration,
    topology: Vhost,
    actor: Actor,
    document: dict[str, Any],
    vhost: str,
) -> dict[str, Any] | Refusal:
    """Declare what the document holds for this vhost (R-DEF-1..4).

    What exists with other arguments refuses the whole import; nothing has changed then.

    Returns:
        `imported`: how many objects; `left_out`: what is not modelled, as texts.
    """
    try:
        existing = _existing(topology)
        loaded = load_definitions(
            document, default_vhost=vhost, existing=existing, max_problems=MAX_PROBLEMS
        )
    except InvalidTopologyError as error:
        return precondition_failed(f"definitions cannot be imported: {error}")
    definitions = loaded.vhosts.get(vhost)
    left_out = [str(problem) for problem in loaded.left_out]
    if definitions is None:
        return {"imported": 0, "left_out": left_out}
    exchanges, queues = administration.exchanges, administration.queues
    policies = administration.policies
    refusals = [
        *(policies.refuse_policy(actor, one, operator=False) for one in definitions.policies),
        *(
            policies.refuse_policy(actor, one, operator=True)
            for one in definitions.operator_policies
        ),
        *(exchanges.refuse_exchange(actor, exchange) for exchange in definitions.exchanges),
        *(queues.refuse_queue(actor, queue) for queue in definitions.queues),
        *(exchanges.refuse_key(binding) for binding in definitions.bindings),
    ]
    for refusal in refusals:
        if refusal is not None:
            return refusal
    for permission in definitions.permissions:
        policies.set_permission(permission)
    policies.set_policies(definitions.policies, definitions.operator_policies)
    for exchange in definitions.exchanges:
        exchanges.declare_exchange(exchange)
    for queue in definitions.queues:
        queues.declare_queue(queue)
    for binding in definitions.bindings:
        exchanges.bind(binding)
    return {"imported": _count(definitions), "left_out": left_out}


def _existing(topology: Vhost) -> list[tuple[DestinationType, str]]:
    """All exchanges and queues."""
    exchanges: list[tuple[DestinationType, str]] = [
        ("exchange", name) for name in topology.router.exchanges
    ]
    return exchanges + [("queue", name) for name in topology.queues]


def _count(definitions: Any) -> int:
    return sum(
        len(part)
        for part in (
            definitions.exchanges,
            definitions.queues,
            definitions.bindings,
            definitions.policies,
            definitions.operator_policies,
            definitions.permissions,
        )
    )
