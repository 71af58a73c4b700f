"""Everything that is wrong with the definitions of one vhost, each problem with its path."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from topology.declarations import (
    PREDECLARED,
    PREDECLARED_NAMES,
    Binding,
    Definitions,
    DestinationType,
)
from topology.errors import Problem
from topology.suggestions import Hints
from topology.validation.declaration_errors import (
    DeclarationError,
    binding_errors,
    exchange_errors,
    permission_errors,
    policy_errors,
    queue_errors,
)
from topology.values import Compat

Locate = Callable[[str, int], str]
"""From a member of `Definitions` and an index to the path that users know it by."""

Item = TypeVar("Item")


def by_index(member: str, index: int) -> str:
    """`bindings[2]`: the path of an object in the definitions of a single vhost."""
    return f"{member}[{index}]"


def find_problems(
    definitions: Definitions,
    compat: Compat = "4.0",
    *,
    locate: Locate = by_index,
    also_known: Iterable[tuple[DestinationType, str]] = (),
) -> Iterator[Problem]:
    """Yield the problems of one vhost, in the order of its members.

    Args:
        definitions: what is declared.
        compat: the RabbitMQ version whose limits apply.
        locate: the path of an object in the problems.
        also_known: exchanges and queues that bindings may name although they are not declared.
    """
    known = {*also_known, *(("exchange", name) for name in PREDECLARED_NAMES)}
    known |= {("exchange", exchange.name) for exchange in definitions.exchanges}
    known |= {("queue", queue.name) for queue in definitions.queues}
    types = {exchange.name: exchange.type for exchange in (*PREDECLARED, *definitions.exchanges)}
    hints = Hints({kind: sorted(name for of, name in known if of == kind) for kind in _KINDS})
    for where, exchange in _located(definitions.exchanges, "exchanges", locate):
        yield from _at(where, exchange_errors(exchange, ""))
    for where, queue in _located(definitions.queues, "queues", locate):
        yield from _at(where, queue_errors(queue, "", compat))
    for where, binding in _located(definitions.bindings, "bindings", locate):
        yield from _unknown_ends(where, binding, known, hints)
        yield from _at(where, binding_errors(binding, types.get(binding.source)))
    for where, policy in _located(definitions.policies, "policies", locate):
        yield from _at(where, policy_errors(policy, compat, operator=False))
    for where, policy in _located(definitions.operator_policies, "operator_policies", locate):
        yield from _at(where, policy_errors(policy, compat, operator=True))
    for where, permission in _located(definitions.permissions, "permissions", locate):
        yield from _at(where, permission_errors(permission))
    yield from _repeated(definitions, locate)


_KINDS: tuple[DestinationType, ...] = ("queue", "exchange")


def _located(items: Sequence[Item], member: str, locate: Locate) -> Iterator[tuple[str, Item]]:
    return ((locate(member, index), item) for index, item in enumerate(items))


def _at(where: str, errors: Iterable[DeclarationError]) -> Iterator[Problem]:
    return (Problem(f"{where}.{error.member}", error.words) for error in errors)


def _unknown_ends(
    where: str, binding: Binding, known: set[tuple[DestinationType, str]], hints: Hints
) -> Iterator[Problem]:
    ends: tuple[tuple[str, DestinationType, str], ...] = (
        ("source", "exchange", binding.source),
        ("destination", binding.destination_type, binding.destination),
    )
    for member, kind, name in ends:
        if (kind, name) not in known:
            what = f"no {kind} is named {name!r}{hints.hint(kind, name)}"
            yield Problem(f"{where}.{member}", what)


def _repeated(definitions: Definitions, locate: Locate) -> Iterator[Problem]:
    """Yield the objects declared twice under one name, with different properties."""
    named: tuple[tuple[str, Sequence[tuple[str, object]]], ...] = (
        ("exchanges", [(item.name, item) for item in definitions.exchanges]),
        ("queues", [(item.name, item) for item in definitions.queues]),
        ("policies", [(item.name, item) for item in definitions.policies]),
        ("operator_policies", [(item.name, item) for item in definitions.operator_policies]),
        ("permissions", [(item.user, item) for item in definitions.permissions]),
    )
    for member, items in named:
        first: dict[str, int] = {}
        for index, (name, item) in enumerate(items):
            before = first.setdefault(name, index)
            if items[before][1] != item:
                what = f"{name!r} is declared differently at {locate(member, before)}"
                yield Problem(locate(member, index), what)
