"""Importing a definitions document into a vhost: all of it, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topology.definitions import load_definitions
from topology.errors import InvalidTopologyError, Refusal, precondition_failed

if TYPE_CHECKING:
    from streaming.broker.administration import Administration
    from streaming.broker.events import Actor


def import_definitions(
    administration: Administration, actor: Actor, document: dict[str, Any], vhost: str
) -> dict[str, Any] | Refusal:
    """Declare what the document holds for this vhost (R-DEF-1..4).

    What exists with other arguments refuses the whole import; nothing has changed then.

    Returns:
        `imported`: how many objects; `left_out`: what is not modelled, as texts.
    """
    try:
        existing = administration.existing()
        loaded = load_definitions(document, default_vhost=vhost, existing=existing)
    except InvalidTopologyError as error:
        return precondition_failed(f"definitions cannot be imported: {error}")
    definitions = loaded.vhosts.get(vhost)
    left_out = [str(problem) for problem in loaded.left_out]
    if definitions is None:
        return {"imported": 0, "left_out": left_out}
    refusals = [
        *(
            administration.refuse_policy(actor, policy, operator=False)
            for policy in definitions.policies
        ),
        *(
            administration.refuse_policy(actor, policy, operator=True)
            for policy in definitions.operator_policies
        ),
        *(administration.refuse_exchange(actor, exchange) for exchange in definitions.exchanges),
        *(administration.refuse_queue(actor, queue) for queue in definitions.queues),
        *(administration.refuse_key(binding) for binding in definitions.bindings),
    ]
    for refusal in refusals:
        if refusal is not None:
            return refusal
    for permission in definitions.permissions:
        administration.set_permission(permission)
    for policy in definitions.policies:
        administration.set_policy(policy, operator=False)
    for policy in definitions.operator_policies:
        administration.set_policy(policy, operator=True)
    for exchange in definitions.exchanges:
        administration.declare_exchange(exchange)
    for queue in definitions.queues:
        administration.declare_queue(queue)
    for binding in definitions.bindings:
        administration.bind(binding)
    return {"imported": _count(definitions), "left_out": left_out}


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
