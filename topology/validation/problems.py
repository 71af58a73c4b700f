"""Everything that is wrong with the definitions of one vhost, each problem with its path."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from topology.declarations import (
    PREDECLARED,
    Binding,
    Definitions,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.errors import Problem, UnsupportedPatternError
from topology.names import RESERVED_PREFIX, too_long
from topology.patterns import compile_pattern
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.suggestions import Hints, did_you_mean
from topology.validation.arguments import argument_faults, foreign_arguments, unsuitable_properties
from topology.validation.bindings import hashes_complaint, x_match_complaint
from topology.validation.constraints import faults_of, text
from topology.validation.policy_keys import (
    APPLY_TO,
    NOTHING_SET,
    known_keys,
    unrecognised,
    value_faults,
)
from topology.values import Compat

Locate = Callable[[str, int], str]
"""From a member of `Definitions` and an index to the path that people know it by."""

Item = TypeVar("Item")
_PROPERTIES = {
    "auto-delete": ("auto_delete", "auto-delete"),
    "exclusive-owner": ("exclusive", "exclusive"),
    "non-durable": ("durable", "transient"),
}


def by_index(member: str, index: int) -> str:
    """`bindings[2]`: where something stands in the definitions of a single vhost."""
    return f"{member}[{index}]"


def check_definitions(
    definitions: Definitions,
    compat: Compat = "4.0",
    *,
    locate: Locate = by_index,
    also_known: Iterable[tuple[DestinationType, str]] = (),
) -> tuple[Problem, ...]:
    """All problems of one vhost; arguments as of `find_problems`."""
    return tuple(find_problems(definitions, compat, locate=locate, also_known=also_known))


def find_problems(
    definitions: Definitions,
    compat: Compat = "4.0",
    *,
    locate: Locate = by_index,
    also_known: Iterable[tuple[DestinationType, str]] = (),
) -> Iterator[Problem]:
    """The problems of one vhost, in the order of its members, each looked for when it is asked for.

    Args:
        definitions: what is declared.
        compat: whose limits count where versions differ.
        locate: how problems name the places.
        also_known: exchanges and queues that bindings may name although they are not declared.
    """
    known = {*also_known, *(("exchange", exchange.name) for exchange in PREDECLARED)}
    known |= {("exchange", exchange.name) for exchange in definitions.exchanges}
    known |= {("queue", queue.name) for queue in definitions.queues}
    types = {exchange.name: exchange.type for exchange in (*PREDECLARED, *definitions.exchanges)}
    hints = Hints({kind: sorted(name for of, name in known if of == kind) for kind in _KINDS})
    for where, exchange in _located(definitions.exchanges, "exchanges", locate):
        yield from _of_exchange(where, exchange)
    for where, queue in _located(definitions.queues, "queues", locate):
        yield from _of_queue(where, queue, compat)
    for where, binding in _located(definitions.bindings, "bindings", locate):
        yield from _unknown_ends(where, binding, known, hints)
        yield from _of_binding(where, binding, types.get(binding.source))
    for where, policy in _located(definitions.policies, "policies", locate):
        yield from _of_policy(where, policy, compat, operator=False)
    for where, policy in _located(definitions.operator_policies, "operator_policies", locate):
        yield from _of_policy(where, policy, compat, operator=True)
    for where, permission in _located(definitions.permissions, "permissions", locate):
        yield from _of_permission(where, permission)
    yield from _repeated(definitions, locate)


_KINDS: tuple[DestinationType, ...] = ("queue", "exchange")


def _located(items: Sequence[Item], member: str, locate: Locate) -> Iterator[tuple[str, Item]]:
    return ((locate(member, index), item) for index, item in enumerate(items))


def _of_exchange(where: str, exchange: Exchange) -> Iterator[Problem]:
    yield from _of_name(where, exchange.name)
    if exchange.type not in EXCHANGE_TYPES:
        hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
        yield Problem(f"{where}.type", f"no exchange type is named {exchange.type!r}{hint}")
    for argument, fault in faults_of(exchange.arguments, {"alternate-exchange": text}):
        yield Problem(f"{where}.arguments.{argument}", fault.words)


def _of_queue(where: str, queue: Queue, compat: Compat) -> Iterator[Problem]:
    yield from _of_name(where, queue.name)
    faults = argument_faults(queue, compat)
    for argument, fault in faults:
        yield Problem(f"{where}.arguments.{argument}", fault.words)
    if any(argument == "x-queue-type" for argument, _fault in faults):
        return
    for argument in foreign_arguments(queue):
        what = f"is not an argument of {queue.queue_type} queues"
        yield Problem(f"{where}.arguments.{argument}", what)
    for unsuitable in unsuitable_properties(queue):
        member, what = _PROPERTIES[unsuitable]
        yield Problem(f"{where}.{member}", f"a quorum queue cannot be {what}")


def _of_name(where: str, name: str) -> Iterator[Problem]:
    if not name:
        yield Problem(f"{where}.name", "must not be empty")
    if name.startswith(RESERVED_PREFIX):
        yield Problem(f"{where}.name", f"{name!r} begins with the reserved {RESERVED_PREFIX!r}")
    if complaint := too_long(name):
        yield Problem(f"{where}.name", complaint)


def _unknown_ends(
    where: str,
    binding: Binding,
    known: set[tuple[DestinationType, str]],
    hints: Hints,
) -> Iterator[Problem]:
    ends: tuple[tuple[str, DestinationType, str], ...] = (
        ("source", "exchange", binding.source),
        ("destination", binding.destination_type, binding.destination),
    )
    for member, kind, name in ends:
        if kind == "exchange" and not name:
            yield Problem(f"{where}.{member}", "the default exchange cannot be bound")
        elif (kind, name) not in known:
            what = f"no {kind} is named {name!r}{hints.hint(kind, name)}"
            yield Problem(f"{where}.{member}", what)


def _of_binding(where: str, binding: Binding, source_type: str | None) -> Iterator[Problem]:
    if complaint := too_long(binding.routing_key):
        yield Problem(f"{where}.routing_key", complaint)
    if source_type == "headers" and (complaint := x_match_complaint(binding)):
        yield Problem(f"{where}.arguments.x-match", complaint)
    if source_type == "topic" and (complaint := hashes_complaint(binding)):
        yield Problem(f"{where}.routing_key", complaint)


def _of_policy(where: str, policy: Policy, compat: Compat, *, operator: bool) -> Iterator[Problem]:
    yield from _of_pattern(f"{where}.pattern", policy.pattern)
    if policy.apply_to not in APPLY_TO:
        hint = did_you_mean(policy.apply_to, APPLY_TO)
        what = f"must be one of {', '.join(APPLY_TO)}, not {policy.apply_to!r}{hint}"
        yield Problem(f"{where}.apply-to", what)
    if not policy.definition:
        yield Problem(f"{where}.definition", f"{NOTHING_SET}: it needs at least one key")
    for key, _value in unrecognised(policy, operator=operator):
        kind = "an operator policy" if operator else "a policy"
        hint = did_you_mean(key, known_keys(operator=operator))
        yield Problem(f"{where}.definition.{key}", f"is not a key of {kind}{hint}")
    for key, complaint in value_faults(policy, compat):
        yield Problem(f"{where}.definition.{key}", complaint)


def _of_permission(where: str, permission: Permission) -> Iterator[Problem]:
    yield from _of_pattern(f"{where}.configure", permission.configure)
    yield from _of_pattern(f"{where}.write", permission.write)
    yield from _of_pattern(f"{where}.read", permission.read)


def _of_pattern(where: str, pattern: str) -> Iterator[Problem]:
    try:
        compile_pattern(pattern)
    except UnsupportedPatternError as error:
        yield Problem(where, str(error))


def _repeated(definitions: Definitions, locate: Locate) -> Iterator[Problem]:
    """Things declared twice under one name, differently."""
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
