"""The objects of one vhost, gathered from a definitions document.

What is not modelled (exchange types of plugins, streams, keys of plugins, the broker's own objects)
is left out with a note, and so is every binding to something that was left out. An object that
cannot be read is a problem; its name stays known, so that bindings to it are no further problems.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

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
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
)
from topology.names import RESERVED_PREFIX
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.suggestions import did_you_mean
from topology.validation.arguments import EVERY_ARGUMENT, QUEUE_TYPES
from topology.validation.policy_keys import INERT, known_keys, unrecognised
from topology.validation.problems import find_problems

Named = TypeVar("Named", Exchange, Queue, Binding, Policy, Permission)
End = tuple[DestinationType, str]

_PREDECLARED_NAMES = frozenset(exchange.name for exchange in PREDECLARED)


class VhostImport:
    """One vhost in the course of being read.

    Attributes:
        default_queue_type: of queues that do not say their type.
    """

    def __init__(self, report: Report, default_queue_type: str = "classic") -> None:
        """A vhost without objects."""
        self.default_queue_type = default_queue_type
        self._report = report
        self._exchanges: list[tuple[Exchange, str]] = []
        self._queues: list[tuple[Queue, str]] = []
        self._bindings: list[tuple[Binding, str]] = []
        self._policies: list[tuple[Policy, str]] = []
        self._operator_policies: list[tuple[Policy, str]] = []
        self._permissions: list[tuple[Permission, str]] = []
        self._unreadable: set[End] = set()
        self._left_out: set[End] = set()

    def add_exchange(self, fields: Fields) -> None:
        """Take in an exchange."""
        exchange = read_exchange(fields)
        end: End = ("exchange", exchange.name)
        if not fields.sound:
            self._unreadable.add(end)
        elif exchange.name in _PREDECLARED_NAMES:
            self._report.leave_out(fields.where, f"every vhost has the exchange {exchange.name!r}")
        elif exchange.name.startswith(RESERVED_PREFIX):
            self._leave_out(end, fields.where, f"{exchange.name!r} is a name of the broker's own")
        elif exchange.type not in EXCHANGE_TYPES:
            hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
            what = f"exchange type {exchange.type!r} is not modelled{hint}"
            self._leave_out(end, fields.at("type"), what)
        else:
            self._note_arguments(exchange, fields, ("alternate-exchange",))
            self._exchanges.append((exchange, fields.where))

    def add_queue(self, fields: Fields) -> None:
        """Take in a queue; a type given outside its arguments becomes an argument."""
        queue_type = fields.text("type", self.default_queue_type)
        queue = read_queue(fields)
        queue_type = queue_type.removeprefix("rabbit_").removesuffix("_queue")
        if "x-queue-type" not in queue.arguments and queue_type != "classic":
            arguments = {"x-queue-type": queue_type, **queue.arguments}
            queue = msgspec.structs.replace(queue, arguments=arguments)
        end: End = ("queue", queue.name)
        if not fields.sound:
            self._unreadable.add(end)
        elif queue.name.startswith(RESERVED_PREFIX):
            self._leave_out(end, fields.where, f"{queue.name!r} is a name of the broker's own")
        elif queue.queue_type not in QUEUE_TYPES:
            hint = did_you_mean(queue.queue_type, QUEUE_TYPES)
            what = f"queue type {queue.queue_type!r} is not modelled{hint}"
            self._leave_out(end, fields.where, what)
        else:
            self._note_arguments(queue, fields, EVERY_ARGUMENT)
            if queue.arguments.get("x-single-active-consumer") is True:
                where = f"{fields.where}.arguments.x-single-active-consumer"
                self._report.leave_out(where, "single active consumers are not modelled")
            self._queues.append((queue, fields.where))

    def add_binding(self, fields: Fields) -> None:
        """Take in a binding."""
        binding = read_binding(fields)
        if not fields.sound:
            return
        if not binding.source:
            self._report.leave_out(fields.where, "the default exchange's bindings are implicit")
        else:
            self._bindings.append((binding, fields.where))

    def add_policy(self, fields: Fields, name: str | None = None) -> None:
        """Take in a policy; `name` if it stands outside the object."""
        self._add_policy(self._policies, fields, read_policy(fields, name), operator=False)

    def add_operator_policy(self, fields: Fields, name: str | None = None) -> None:
        """Take in an operator policy; `name` if it stands outside the object."""
        policy = read_operator_policy(fields, name)
        self._add_policy(self._operator_policies, fields, policy, operator=True)

    def add_permission(self, fields: Fields) -> None:
        """Take in a permission."""
        permission = read_permission(fields)
        if fields.sound:
            self._permissions.append((permission, fields.where))

    def finish(self, existing: frozenset[End] = frozenset()) -> Definitions:
        """The definitions; everything wrong with them goes to the report.

        Args:
            existing: what bindings may name although it is not declared here.
        """
        exchanges = self._without_repeats(self._exchanges)
        queues = self._without_repeats(self._queues)
        bindings = [
            (binding, where)
            for binding, where in self._without_repeats(self._bindings)
            if not self._is_orphan(binding, where)
        ]
        policies = self._without_repeats(self._policies)
        operator_policies = self._without_repeats(self._operator_policies)
        permissions = self._without_repeats(self._permissions)
        definitions = Definitions(
            exchanges=_items(exchanges),
            queues=_items(queues),
            bindings=_items(bindings),
            policies=_items(policies),
            operator_policies=_items(operator_policies),
            permissions=_items(permissions),
        )
        places = {
            "exchanges": _places(exchanges),
            "queues": _places(queues),
            "bindings": _places(bindings),
            "policies": _places(policies),
            "operator_policies": _places(operator_policies),
            "permissions": _places(permissions),
        }
        self._report.add(
            find_problems(
                definitions,
                locate=lambda member, index: places[member][index],
                also_known=self._unreadable | existing,
            )
        )
        return definitions

    def _add_policy(
        self, policies: list[tuple[Policy, str]], fields: Fields, policy: Policy, *, operator: bool
    ) -> None:
        if not fields.sound:
            return
        for key in sorted(INERT & policy.definition.keys()):
            self._report.leave_out(f"{fields.where}.definition.{key}", "has no effect here")
        unknown = [key for key, _value in unrecognised(policy, operator=operator)]
        for key in unknown:
            what = f"is not modelled{did_you_mean(key, known_keys(operator=operator))}"
            self._report.leave_out(f"{fields.where}.definition.{key}", what)
        kept = {key: value for key, value in policy.definition.items() if key not in unknown}
        if unknown and not kept:
            self._report.leave_out(fields.where, "nothing of its definition is modelled")
            return
        policies.append((msgspec.structs.replace(policy, definition=kept), fields.where))

    def _leave_out(self, end: End, where: str, what: str) -> None:
        self._left_out.add(end)
        self._report.leave_out(where, what)

    def _note_arguments(self, item: Exchange | Queue, fields: Fields, known: Sequence[str]) -> None:
        for name in item.arguments:
            if name not in known:
                what = f"is no argument that has an effect{did_you_mean(name, known)}"
                self._report.leave_out(f"{fields.where}.arguments.{name}", what)

    def _without_repeats(self, located: list[tuple[Named, str]]) -> list[tuple[Named, str]]:
        """Each object once; what is declared again, but differently, stays, for it is a problem."""
        first: dict[object, tuple[Named, str]] = {}
        kept: list[tuple[Named, str]] = []
        for item, where in located:
            before, at = first.setdefault(_identity(item), (item, where))
            if at != where and before == item:
                self._report.leave_out(where, f"repeats {at}")
            else:
                kept.append((item, where))
        return kept

    def _is_orphan(self, binding: Binding, where: str) -> bool:
        """Whether one end of a binding was left out; if so, the binding is too."""
        ends: tuple[End, ...] = (
            ("exchange", binding.source),
            (binding.destination_type, binding.destination),
        )
        for kind, name in ends:
            if (kind, name) in self._left_out:
                self._report.leave_out(where, f"the {kind} {name!r} was left out")
                return True
        return False


def _identity(item: Exchange | Queue | Binding | Policy | Permission) -> object:
    """What only one object of a kind may have."""
    if isinstance(item, Binding):
        return item.key
    return item.user if isinstance(item, Permission) else item.name


def _items(located: list[tuple[Named, str]]) -> tuple[Named, ...]:
    return tuple(item for item, _where in located)


def _places(located: list[tuple[Named, str]]) -> list[str]:
    return [where for _item, where in located]
