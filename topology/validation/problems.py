"""Everything that is wrong with the definitions of one vhost, each problem with its path."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from topology.declarations import (
    PREDECLARED,
    PREDECLARED_NAMES,
    Binding,
    Definitions,
    DestinationType,
)
from topology.errors import Problem
from topology.sentences import say, to_say
from topology.suggestions import Hints
from topology.validation.declaration_errors import (
    DeclarationError,
    binding_errors,
    exchange_errors,
    permission_errors,
    policy_errors,
    queue_errors,
    topic_permission_errors,
)
from topology.values import Compat

Locate = Callable[[str, int], str]
"""From a member of `Definitions` and an index to the path that users know it by."""

_CODES = {
    "exchanges": "invalid-exchange",
    "queues": "invalid-queue",
    "bindings": "invalid-binding",
    "policies": "invalid-policy",
    "operator_policies": "invalid-policy",
    "permissions": "invalid-permission",
    "topic_permissions": "invalid-permission",
}


def by_index(member: str, index: int) -> str:
    """`bindings[2]`: the path of an object in the definitions of a single vhost."""
    return f"{member}[{index}]"


def find_problems(
    definitions: Definitions,
    compat: Compat = "4.0",
    *,
    locate: Locate = by_index,
    also_known: Iterable[tuple[DestinationType, str]] = (),
    alone: bool = False,
) -> Iterator[Problem]:
    """Yield the problems of one vhost, in the order of its members.

    Args:
        locate: the path of an object in the problems.
        also_known: exchanges and queues that bindings may name although they are not declared.
        alone: check each object by itself; do not look for names that are declared twice.
    """
    known = {*also_known, *(("exchange", name) for name in PREDECLARED_NAMES)}
    known |= {("exchange", exchange.name) for exchange in definitions.exchanges}
    known |= {("queue", queue.name) for queue in definitions.queues}
    types = {exchange.name: exchange.type for exchange in (*PREDECLARED, *definitions.exchanges)}
    hints = Hints(
        {kind: sorted(name for of, name in known if of == kind) for kind in ("queue", "exchange")}
    )

    def at(member: str, index: int, errors: Iterable[DeclarationError]) -> Iterator[Problem]:
        where = locate(member, index)
        code = _CODES[member]
        return (Problem(f"{where}.{error.member}", error.words, code) for error in errors)

    for index, exchange in enumerate(definitions.exchanges):
        yield from at("exchanges", index, exchange_errors(exchange, ""))
    for index, queue in enumerate(definitions.queues):
        yield from at("queues", index, queue_errors(queue, "", compat))
    for index, binding in enumerate(definitions.bindings):
        yield from _unknown_ends(locate("bindings", index), binding, known, hints)
        yield from at("bindings", index, binding_errors(binding, types.get(binding.source)))
    for index, policy in enumerate(definitions.policies):
        yield from at("policies", index, policy_errors(policy, compat, operator=False))
    for index, policy in enumerate(definitions.operator_policies):
        yield from at("operator_policies", index, policy_errors(policy, compat, operator=True))
    for index, permission in enumerate(definitions.permissions):
        yield from at("permissions", index, permission_errors(permission))
    for index, topic in enumerate(definitions.topic_permissions):
        yield from at("topic_permissions", index, topic_permission_errors(topic))
    if not alone:
        yield from _repeated(definitions, locate)


def _unknown_ends(
    where: str, binding: Binding, known: set[tuple[DestinationType, str]], hints: Hints
) -> Iterator[Problem]:
    ends: tuple[tuple[str, DestinationType, str], ...] = (
        ("source", "exchange", binding.source),
        ("destination", binding.destination_type, binding.destination),
    )
    for member, kind, name in ends:
        if (kind, name) not in known:
            template = (
                to_say("no queue is named %(name)s%(hint)s")
                if kind == "queue"
                else to_say("no exchange is named %(name)s%(hint)s")
            )
            what = say(template, name=repr(name), hint=hints.hint(kind, name))
            yield Problem(f"{where}.{member}", what, "unknown-name")


def _repeated(definitions: Definitions, locate: Locate) -> Iterator[Problem]:
    """Yield the objects declared twice under one name, with different properties."""
    named: tuple[tuple[str, Sequence[tuple[str, object]]], ...] = (
        ("exchanges", [(item.name, item) for item in definitions.exchanges]),
        ("queues", [(item.name, item) for item in definitions.queues]),
        ("policies", [(item.name, item) for item in definitions.policies]),
        ("operator_policies", [(item.name, item) for item in definitions.operator_policies]),
        ("permissions", [(item.user, item) for item in definitions.permissions]),
        ("topic_permissions", [(item.name, item) for item in definitions.topic_permissions]),
    )
    for member, items in named:
        first: dict[str, int] = {}
        for index, (name, item) in enumerate(items):
            before = first.setdefault(name, index)
            if items[before][1] != item:
                what = say(
                    "%(name)s is declared differently at %(where)s",
                    name=repr(name),
                    where=locate(member, before),
                )
                yield Problem(locate(member, index), what, "conflicting-declarations")
