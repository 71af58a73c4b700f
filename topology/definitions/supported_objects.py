"""The supported objects of one vhost, collected from a definitions document.

What is not supported (exchange types of plugins, streams, keys of plugins, exclusive queues, single
active consumers, names reserved for the broker) is left out and reported, and so is every binding
to it. An object that cannot be read is a problem; its name stays known, so that bindings to it are
not further problems.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from topology.declarations import (
    PREDECLARED_NAMES,
    RESERVED_PREFIX,
    Binding,
    BindingEnd,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
)
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.suggestions import did_you_mean
from topology.validation.arguments import (
    INERT_POLICY_KEYS,
    QUEUE_ARGUMENTS,
    QUEUE_TYPES,
    policy_keys,
    unrecognised_keys,
)
from topology.validation.declaration_errors import SINGLE_ACTIVE_CONSUMER
from topology.validation.problems import find_problems
from topology.values import Compat

Item = TypeVar("Item", Exchange, Queue, Binding, Policy, Permission)


class SupportedObjects:
    """Collects the supported objects of one vhost, each with its path in the document."""

    def __init__(self, report: Report, default_queue_type: str = "classic") -> None:
        self.default_queue_type = default_queue_type
        self._report = report
        self._exchanges: list[tuple[Exchange, str]] = []
        self._queues: list[tuple[Queue, str]] = []
        self._bindings: list[tuple[Binding, str]] = []
        self._policies: list[tuple[Policy, str]] = []
        self._operator_policies: list[tuple[Policy, str]] = []
        self._permissions: list[tuple[Permission, str]] = []
        self._unreadable: set[BindingEnd] = set()
        self._skipped: set[BindingEnd] = set()

    def add_exchange(self, fields: Fields) -> None:
        """Read an exchange."""
        exchange = read_exchange(fields)
        end: BindingEnd = ("exchange", exchange.name)
        if not fields.sound:
            self._unreadable.add(end)
        elif exchange.name in PREDECLARED_NAMES:
            what = f"exchange {exchange.name!r} is predeclared in every vhost"
            self._report.skip(fields.where, what)
        elif exchange.name.startswith(RESERVED_PREFIX):
            self._skip(end, fields.where, f"name {exchange.name!r} is reserved for the broker")
        elif exchange.type not in EXCHANGE_TYPES:
            hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
            what = f"exchange type {exchange.type!r} is not supported{hint}"
            self._skip(end, fields.at("type"), what)
        else:
            self._report_arguments(exchange, fields, ("alternate-exchange",))
            self._exchanges.append((exchange, fields.where))

    def add_queue(self, fields: Fields) -> None:
        """Read a queue; a type given outside its arguments becomes an argument."""
        queue_type = fields.text("type", self.default_queue_type)
        queue = read_queue(fields)
        queue_type = queue_type.removeprefix("rabbit_").removesuffix("_queue")
        if "x-queue-type" not in queue.arguments and queue_type != "classic":
            arguments = {"x-queue-type": queue_type, **queue.arguments}
            queue = msgspec.structs.replace(queue, arguments=arguments)
        end: BindingEnd = ("queue", queue.name)
        if not fields.sound:
            self._unreadable.add(end)
        elif queue.name.startswith(RESERVED_PREFIX):
            self._skip(end, fields.where, f"name {queue.name!r} is reserved for the broker")
        elif queue.queue_type not in QUEUE_TYPES:
            hint = did_you_mean(queue.queue_type, QUEUE_TYPES)
            what = f"queue type {queue.queue_type!r} is not supported{hint}"
            self._skip(end, fields.where, what)
        elif queue.exclusive:
            what = "an exclusive queue belongs to a channel and cannot be imported"
            self._skip(end, fields.at("exclusive"), what)
        elif queue.arguments.get(SINGLE_ACTIVE_CONSUMER) is True:
            what = "a queue with a single active consumer is not supported"
            self._skip(end, f"{fields.where}.arguments.{SINGLE_ACTIVE_CONSUMER}", what)
        else:
            self._report_arguments(queue, fields, QUEUE_ARGUMENTS)
            self._queues.append((queue, fields.where))

    def add_binding(self, fields: Fields) -> None:
        """Read a binding."""
        binding = read_binding(fields)
        if fields.sound and not binding.source:
            self._report.skip(fields.where, "bindings of the default exchange are implicit")
        elif fields.sound:
            self._bindings.append((binding, fields.where))

    def add_policy(self, fields: Fields, name: str | None = None) -> None:
        """Read a policy; `name` if it is outside the object."""
        self._add_policy(self._policies, fields, read_policy(fields, name), operator=False)

    def add_operator_policy(self, fields: Fields, name: str | None = None) -> None:
        """Read an operator policy; `name` if it is outside the object."""
        policy = read_operator_policy(fields, name)
        self._add_policy(self._operator_policies, fields, policy, operator=True)

    def add_permission(self, fields: Fields) -> None:
        """Read a permission."""
        permission = read_permission(fields)
        if fields.sound:
            self._permissions.append((permission, fields.where))

    def finish(self, existing: frozenset[BindingEnd], compat: Compat) -> Definitions:
        """Return the definitions; everything wrong with them goes to the report.

        Bindings may name what is `existing`, although it is not declared here.
        """
        paths: dict[str, list[str]] = {}
        bindings = [each for each in self._bindings if not self._is_orphan(*each)]
        definitions = Definitions(
            exchanges=self._distinct("exchanges", self._exchanges, paths),
            queues=self._distinct("queues", self._queues, paths),
            bindings=self._distinct("bindings", bindings, paths),
            policies=self._distinct("policies", self._policies, paths),
            operator_policies=self._distinct("operator_policies", self._operator_policies, paths),
            permissions=self._distinct("permissions", self._permissions, paths),
        )
        self._report.add(
            find_problems(
                definitions,
                compat,
                locate=lambda section, index: paths[section][index],
                also_known=self._unreadable | existing,
            )
        )
        return definitions

    def _add_policy(
        self, policies: list[tuple[Policy, str]], fields: Fields, policy: Policy, *, operator: bool
    ) -> None:
        if not fields.sound:
            return
        supported = with_supported_keys(policy, fields.where, self._report, operator=operator)
        if supported is not None:
            policies.append((supported, fields.where))

    def _skip(self, end: BindingEnd, where: str, what: str) -> None:
        self._skipped.add(end)
        self._report.skip(where, what)

    def _report_arguments(
        self, item: Exchange | Queue, fields: Fields, known: Sequence[str]
    ) -> None:
        for name in item.arguments:
            if name not in known:
                what = f"is an unknown argument and has no effect{did_you_mean(name, known)}"
                self._report.skip(f"{fields.where}.arguments.{name}", what)

    def _distinct(
        self, section: str, located: list[tuple[Item, str]], paths: dict[str, list[str]]
    ) -> tuple[Item, ...]:
        """The objects without exact duplicates; conflicting duplicates stay, as a problem.

        `paths` receives the paths of the objects that stay.
        """
        first: dict[object, tuple[Item, str]] = {}
        items: list[Item] = []
        paths[section] = []
        for item, where in located:
            before, at = first.setdefault(_identity(item), (item, where))
            if at != where and before == item:
                self._report.skip(where, f"is a duplicate of {at}")
            else:
                items.append(item)
                paths[section].append(where)
        return tuple(items)

    def _is_orphan(self, binding: Binding, where: str) -> bool:
        """Whether one end of a binding was left out; if so, reports the binding as left out."""
        ends: tuple[BindingEnd, ...] = (
            ("exchange", binding.source),
            (binding.destination_type, binding.destination),
        )
        for kind, name in ends:
            if (kind, name) in self._skipped:
                self._report.skip(where, f"the {kind} {name!r} is skipped")
                return True
        return False


def with_supported_keys(
    policy: Policy, where: str, report: Report, *, operator: bool
) -> Policy | None:
    """The policy without unsupported keys, which are reported; None if no key is supported."""
    for key in sorted(INERT_POLICY_KEYS & policy.definition.keys()):
        report.skip(f"{where}.definition.{key}", "has no effect here")
    unknown = unrecognised_keys(policy, operator=operator)
    for key in unknown:
        what = f"is not supported{did_you_mean(key, policy_keys(operator=operator))}"
        report.skip(f"{where}.definition.{key}", what)
    kept = {key: value for key, value in policy.definition.items() if key not in unknown}
    if unknown and not kept:
        report.skip(where, "none of its keys is supported")
        return None
    return msgspec.structs.replace(policy, definition=kept)


def _identity(item: Exchange | Queue | Binding | Policy | Permission) -> object:
    """What only one object of its kind may have."""
    if isinstance(item, Binding):
        return item.key
    return item.user if isinstance(item, Permission) else item.name
