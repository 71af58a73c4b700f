"""What importing a definitions document would change, object by object (R-DEF-3, R-DEF-4)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeVar

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
from topology.sentences import joined, say
from topology.validation.refuse import inequivalent_exchange, inequivalent_queue

Effect = Literal["create", "replace", "same", "conflict", "absent", "skipped"]
Declared = TypeVar("Declared", Exchange, Queue)

_TABLES: Final = ("arguments", "definition")
_KINDS: Final[Mapping[str, str]] = {
    "permissions": "permission",
    "topic_permissions": "topic permission",
    "policies": "policy",
    "parameters": "operator policy",
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
}


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
            yield Change("replace", kind, _name_of(rule), what_differs(old, new))


def what_differs(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    """Say how two documents of one object differ, arguments and keys of policies one by one."""
    old, new = flat(old), flat(new)
    parts = []
    for member in {**old, **new}:
        if member not in new:
            parts.append(say("without %(member)s %(old)s", member=member, old=repr(old[member])))
        elif member not in old:
            parts.append(say("with %(member)s %(new)s", member=member, new=repr(new[member])))
        elif old[member] != new[member]:
            before, after = repr(old[member]), repr(new[member])
            parts.append(say("%(member)s %(old)s -> %(new)s", member=member, old=before, new=after))
    return joined(parts, "; ")


def flat(document: Mapping[str, object]) -> dict[str, object]:
    """A document of an object with its arguments, or keys of a policy, beside its members."""
    found: dict[str, object] = {}
    for member, value in document.items():
        if member in _TABLES and isinstance(value, Mapping):
            found |= value
        else:
            found[member] = value
    return found


def declared_as(definitions: Definitions) -> dict[tuple[str, str], dict[str, object]]:
    """How each object is declared, by the kind and the name that its `Change` has."""
    return {(kind, name): declaration_document(item) for kind, name, item in _exported(definitions)}


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
    named = {(kind, _identity(item)) for kind, _, item in _exported(wanted)}
    for kind, name, item in _exported(live):
        if (kind, _identity(item)) not in named:
            yield Change("absent", kind, name, say("not in the document, and stays"))


def _exported(definitions: Definitions) -> Iterator[tuple[str, str, Declaration]]:
    """The kind, the name and the declaration of each object that is exported."""
    for section, item in exported(definitions):
        kind = "vhost limits" if isinstance(item, VhostLimits) else _KINDS[section]
        yield kind, _words(item) if isinstance(item, Binding) else _name_of(item), item


def _identity(item: Declaration) -> object:
    return item.key if isinstance(item, Binding) else _name_of(item)


def _words(binding: Binding) -> str:
    source, destination = repr(binding.source), repr(binding.destination)
    if binding.destination_type == "queue":
        said = say("%(source)s -> queue %(name)s", source=source, name=destination)
    else:
        said = say("%(source)s -> exchange %(name)s", source=source, name=destination)
    if binding.routing_key:
        key = repr(binding.routing_key)
        said = say("%(binding)s with %(key)s", binding=said, key=key)
    if binding.arguments:
        arguments = str(binding.arguments)
        said = say("%(binding)s and %(arguments)s", binding=said, arguments=arguments)
    return said
