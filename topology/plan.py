"""What importing a definitions document would change, object by object (R-DEF-3, R-DEF-4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeVar

import msgspec

from topology.declarations import Binding, Definitions, Permission, Policy
from topology.documents import permission_document, policy_document
from topology.equivalence import inequivalent_exchange, inequivalent_queue

Effect = Literal["create", "replace", "same", "conflict"]
Rule = TypeVar("Rule", Policy, Permission)


class Change(msgspec.Struct, frozen=True):
    """What becomes of one object of the document.

    Attributes:
        effect: `conflict`: it exists with other properties, so the whole import is refused.
        kind: such as `queue`.
        detail: what is replaced, or RabbitMQ's words for the conflict.
    """

    effect: Effect
    kind: str
    name: str
    detail: str = ""


def plan_import(live: Definitions, wanted: Definitions, vhost: str) -> list[Change]:
    """Compare a document with what is declared; nothing is ever removed by an import."""
    return [
        *_rules("permission", live.permissions, wanted.permissions),
        *_rules("policy", live.policies, wanted.policies),
        *_rules("operator policy", live.operator_policies, wanted.operator_policies),
        *_exchanges(live, wanted, vhost),
        *_queues(live, wanted, vhost),
        *_bindings(live, wanted),
    ]


def _rules(kind: str, live: tuple[Rule, ...], wanted: tuple[Rule, ...]) -> Iterator[Change]:
    known = {_name_of(rule): _document_of(rule) for rule in live}
    for rule in wanted:
        name, new = _name_of(rule), _document_of(rule)
        old = known.get(name)
        if old is None:
            yield Change("create", kind, name)
        elif old == new:
            yield Change("same", kind, name)
        else:
            changed = [
                f"{member} {old[member]!r} -> {value!r}"
                for member, value in new.items()
                if old[member] != value
            ]
            yield Change("replace", kind, name, "; ".join(changed))


def _name_of(rule: Policy | Permission) -> str:
    return rule.name if isinstance(rule, Policy) else rule.user


def _document_of(rule: Policy | Permission) -> dict[str, object]:
    return policy_document(rule) if isinstance(rule, Policy) else permission_document(rule)


def _exchanges(live: Definitions, wanted: Definitions, vhost: str) -> Iterator[Change]:
    known = {exchange.name: exchange for exchange in live.exchanges}
    for exchange in wanted.exchanges:
        old = known.get(exchange.name)
        if old is None:
            yield Change("create", "exchange", exchange.name)
            continue
        refusal = inequivalent_exchange(old, exchange, vhost)
        effect: Effect = "same" if refusal is None else "conflict"
        yield Change(effect, "exchange", exchange.name, "" if refusal is None else refusal.text)


def _queues(live: Definitions, wanted: Definitions, vhost: str) -> Iterator[Change]:
    known = {queue.name: queue for queue in live.queues}
    for queue in wanted.queues:
        old = known.get(queue.name)
        if old is None:
            yield Change("create", "queue", queue.name)
            continue
        refusal = inequivalent_queue(old, queue, vhost)
        effect: Effect = "same" if refusal is None else "conflict"
        yield Change(effect, "queue", queue.name, "" if refusal is None else refusal.text)


def _bindings(live: Definitions, wanted: Definitions) -> Iterator[Change]:
    known = {binding.key for binding in live.bindings}
    for binding in wanted.bindings:
        effect: Effect = "same" if binding.key in known else "create"
        yield Change(effect, "binding", _binding_name(binding))


def _binding_name(binding: Binding) -> str:
    key = f" with {binding.routing_key!r}" if binding.routing_key else ""
    arguments = f" and {binding.arguments}" if binding.arguments else ""
    return (
        f"{binding.source!r} -> {binding.destination_type} {binding.destination!r}{key}{arguments}"
    )
