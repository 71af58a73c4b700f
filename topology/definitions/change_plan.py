"""What importing a definitions document would change, object by object (R-DEF-3, R-DEF-4)."""

from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import msgspec

from topology.declarations import (
    Binding,
    Declaration,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    VhostLimits,
)
from topology.definitions.dump import exported
from topology.definitions.objects import declaration_document
from topology.refusals import Refusal
from topology.validation.refuse import inequivalent_exchange, inequivalent_queue

Effect = Literal["create", "replace", "same", "conflict", "absent", "skipped"]
Declared = TypeVar("Declared", Exchange, Queue)


class Change(msgspec.Struct, frozen=True):
    """What importing does to one object.

    Attributes:
        effect: `conflict`: it exists with other properties, so the whole import is refused;
            `absent`: it exists and is not in the document, so that it stays as it is;
            `skipped`: it is not supported; the kind is then a code, and the name a path.
        detail: what is replaced, or RabbitMQ's reply to the conflict.
    """

    effect: Effect
    kind: str
    name: str
    detail: str = ""


def plan_import(live: Definitions, wanted: Definitions, vhost: str) -> list[Change]:
    """Compare a document with what is declared; an import never removes anything."""
    return [
        *_rules("permission", live.permissions, wanted.permissions),
        *_rules("topic permission", live.topic_permissions, wanted.topic_permissions),
        *_rules("vhost limits", live.limits, wanted.limits),
        *_rules("policy", live.policies, wanted.policies),
        *_rules("operator policy", live.operator_policies, wanted.operator_policies),
        *_declared("exchange", live.exchanges, wanted.exchanges, inequivalent_exchange, vhost),
        *_declared("queue", live.queues, wanted.queues, inequivalent_queue, vhost),
        *_bindings(live, wanted),
        *_absent(live, wanted),
    ]


Rule = Policy | Permission | TopicPermission | VhostLimits


def _rules(kind: str, live: tuple[Rule, ...], wanted: tuple[Rule, ...]) -> Iterator[Change]:
    """Policies and permissions replace those of the same name."""
    known = {_name_of(rule): declaration_document(rule) for rule in live}
    for rule in wanted:
        old, new = known.get(_name_of(rule)), declaration_document(rule)
        if old is None or old == new:
            yield Change("create" if old is None else "same", kind, _name_of(rule))
        else:
            changed = [
                f"{member} {old.get(member)!r} -> {new.get(member)!r}"
                for member in {**new, **old}
                if old.get(member) != new.get(member)
            ]
            yield Change("replace", kind, _name_of(rule), "; ".join(changed))


def _name_of(item: Rule | Exchange | Queue) -> str:
    return item.user if isinstance(item, Permission) else item.name


def _declared(
    kind: str,
    live: tuple[Declared, ...],
    wanted: tuple[Declared, ...],
    inequivalent: Callable[[Declared, Declared, str], Refusal | None],
    vhost: str,
) -> Iterator[Change]:
    """Exchanges and queues stay as they are: a different declaration is a conflict."""
    known = {declared.name: declared for declared in live}
    for declared in wanted:
        old = known.get(declared.name)
        refusal = None if old is None else inequivalent(old, declared, vhost)
        if refusal is not None:
            yield Change("conflict", kind, declared.name, refusal.text)
        else:
            yield Change("create" if old is None else "same", kind, declared.name)


def _bindings(live: Definitions, wanted: Definitions) -> Iterator[Change]:
    known = {binding.key for binding in live.bindings}
    for binding in wanted.bindings:
        yield Change("same" if binding.key in known else "create", "binding", _words(binding))


def _absent(live: Definitions, wanted: Definitions) -> Iterator[Change]:
    """What is declared, is exported, and is not in the document."""
    kinds = {
        "permissions": "permission",
        "topic_permissions": "topic permission",
        "policies": "policy",
        "parameters": "operator policy",
        "exchanges": "exchange",
        "queues": "queue",
        "bindings": "binding",
    }
    named = {(section, _identity(item)) for section, item in exported(wanted)}
    for section, item in exported(live):
        if (section, _identity(item)) not in named:
            name = _words(item) if isinstance(item, Binding) else _name_of(item)
            kind = "vhost limits" if isinstance(item, VhostLimits) else kinds[section]
            yield Change("absent", kind, name, "not in the document, and stays")


def _identity(item: Declaration) -> object:
    return item.key if isinstance(item, Binding) else _name_of(item)


def _words(binding: Binding) -> str:
    key = f" with {binding.routing_key!r}" if binding.routing_key else ""
    arguments = f" and {binding.arguments}" if binding.arguments else ""
    return (
        f"{binding.source!r} -> {binding.destination_type} {binding.destination!r}{key}{arguments}"
    )
