"""What importing a definitions document would change, object by object (R-DEF-3, R-DEF-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import msgspec

from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.objects import permission_document, policy_document
from topology.refusals import Refusal
from topology.validation.refuse import inequivalent_exchange, inequivalent_queue

Effect = Literal["create", "replace", "same", "conflict"]
Rule = TypeVar("Rule", Policy, Permission)
Declared = TypeVar("Declared", Exchange, Queue)


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
        *_declared(
            "exchange",
            live.exchanges,
            wanted.exchanges,
            lambda old, new: inequivalent_exchange(old, new, vhost),
        ),
        *_declared(
            "queue",
            live.queues,
            wanted.queues,
            lambda old, new: inequivalent_queue(old, new, vhost),
        ),
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


def _declared(
    kind: str,
    live: tuple[Declared, ...],
    wanted: tuple[Declared, ...],
    inequivalent: Callable[[Declared, Declared], Refusal | None],
) -> Iterator[Change]:
    known = {declared.name: declared for declared in live}
    for declared in wanted:
        old = known.get(declared.name)
        if old is None:
            yield Change("create", kind, declared.name)
            continue
        refusal = inequivalent(old, declared)
        effect: Effect = "same" if refusal is None else "conflict"
        yield Change(effect, kind, declared.name, "" if refusal is None else refusal.text)


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
