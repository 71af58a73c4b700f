"""The `definitions` of a scenario, declared before its first step.

They have the form of RabbitMQ's definitions files; an export can be pasted in. Unsupported items
(streams, exchange types and parameters of plugins, unknown members) are skipped with a note, and so
are all bindings to them. Everything else is declared like a client does: if RabbitMQ refuses it,
the file is not malformed, but the outcome is `setup_error`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from topology.declarations import Binding, Definitions, DestinationType, Exchange, Policy, Queue
from topology.definitions import objects
from topology.definitions.json_object import Fields, Report
from topology.definitions.load import DESCRIPTIVE
from topology.definitions.supported_objects import with_supported_keys
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.suggestions import did_you_mean
from topology.validation.arguments import QUEUE_ARGUMENTS
from topology.values import json_type

Declaration = TypeVar("Declaration", Exchange, Queue, Binding, Policy)

UNSUPPORTED_QUEUE_TYPES = ("stream", "mqtt_qos0")
"""Queue types of RabbitMQ that are skipped; any other unknown type is refused when declared."""

_ELSEWHERE = {
    "global_parameters": "parameters of plugins are not supported",
    "permissions": "a scenario runs as the operator, who needs no permissions",
    "topic_permissions": "topic permissions are not supported",
    "users": "a scenario runs as the operator",
}
"""Members of an export that do not apply to a scenario, and why."""


def read_definitions(document: object, where: str, report: Report) -> Definitions:
    """Read the declarations; problems and skipped items go to the report."""
    if document is None:
        return Definitions()
    if not isinstance(document, dict):
        report.problem(where, f"expected an object, got {json_type(document)}")
        return Definitions()
    return _Reader(Fields(document, where, report)).read()


class _Reader:
    """Reads one document."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._report = fields.report
        self._skipped: set[tuple[DestinationType, str]] = set()
        self._vhost: str | None = None

    def read(self) -> Definitions:
        exchanges = self._each("exchanges", objects.read_exchange, self._keep_exchange)
        queues = self._each("queues", _read_queue, self._keep_queue)
        bindings = self._each("bindings", objects.read_binding, self._keep_binding)
        policies = self._each("policies", objects.read_policy, lambda *_: True)
        operator_policies = self._each(
            "operator_policies", objects.read_operator_policy, lambda *_: True
        )
        for fields in self._objects("parameters"):
            self._parameter(fields, policies, operator_policies)
        for name, why in _ELSEWHERE.items():
            if self._fields.value(name):
                self._report.skip(self._fields.at(name), why)
        self._fields.skip_unknown((*DESCRIPTIVE, "vhosts"))
        return Definitions(
            tuple(exchange for exchange, _fields in exchanges),
            tuple(queue for queue, _fields in queues),
            tuple(binding for binding, _fields in bindings),
            _supported(policies, operator=False),
            _supported(operator_policies, operator=True),
        )

    # -- any kind

    def _objects(self, member: str) -> Iterator[Fields]:
        """The objects of an array in the scenario's vhost."""
        items = self._fields.value(member)
        where = self._fields.at(member)
        if items is not None and not isinstance(items, list):
            self._report.problem(where, f"expected an array, got {json_type(items)}")
            return
        for index, item in enumerate(items or ()):
            fields = Fields(item, f"{where}[{index}]", self._report)
            vhost = fields.text("vhost", self._vhost or "") or None
            if self._vhost is None:
                self._vhost = vhost
            if vhost == self._vhost:
                yield fields
            elif vhost is not None:
                what = f"a scenario has one vhost, here {self._vhost!r}"
                self._report.skip(fields.at("vhost"), what)

    def _each(
        self,
        member: str,
        read: Callable[[Fields], Declaration],
        keep: Callable[[Declaration, Fields], bool],
    ) -> list[tuple[Declaration, Fields]]:
        """The valid declarations of an array that are kept."""
        declarations: list[tuple[Declaration, Fields]] = []
        for fields in self._objects(member):
            declaration = read(fields)
            fields.skip_unknown()
            if fields.sound and keep(declaration, fields):
                declarations.append((declaration, fields))
        return declarations

    def _skip(self, kind: DestinationType, name: str, where: str, what: str) -> bool:
        self._skipped.add((kind, name))
        self._report.skip(where, what)
        return False

    # -- each kind

    def _keep_exchange(self, exchange: Exchange, fields: Fields) -> bool:
        if exchange.type in EXCHANGE_TYPES:
            return True
        hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
        what = f"exchange type {exchange.type!r} is not supported{hint}"
        return self._skip("exchange", exchange.name, fields.at("type"), what)

    def _keep_queue(self, queue: Queue, fields: Fields) -> bool:
        if queue.queue_type in UNSUPPORTED_QUEUE_TYPES:
            what = f"queue type {queue.queue_type!r} is not supported"
            return self._skip("queue", queue.name, fields.where, what)
        for name in queue.arguments:
            if name not in QUEUE_ARGUMENTS:
                hint = did_you_mean(name, QUEUE_ARGUMENTS)
                what = f"is not an argument that has an effect{hint}"
                self._report.skip(f"{fields.where}.arguments.{name}", what)
        return True

    def _keep_binding(self, binding: Binding, fields: Fields) -> bool:
        ends: tuple[tuple[DestinationType, str], ...] = (
            ("exchange", binding.source),
            (binding.destination_type, binding.destination),
        )
        for kind, name in ends:
            if (kind, name) in self._skipped:
                self._report.skip(fields.where, f"the {kind} {name!r} is skipped")
                return False
        return True

    def _parameter(
        self,
        fields: Fields,
        policies: list[tuple[Policy, Fields]],
        operator_policies: list[tuple[Policy, Fields]],
    ) -> None:
        """RabbitMQ exports operator policies as parameters."""
        component, name = fields.text("component"), fields.text("name")
        if not fields.sound:
            return
        if component not in {"policy", "operator_policy"}:
            self._report.skip(fields.where, f"a {component!r} parameter is not supported")
            return
        value = Fields(fields.value("value"), fields.at("value"), self._report)
        if component == "policy":
            policy, into = objects.read_policy(value, name), policies
        else:
            policy, into = objects.read_operator_policy(value, name), operator_policies
        value.skip_unknown()
        if value.sound:
            into.append((policy, value))


def _supported(policies: Iterable[tuple[Policy, Fields]], *, operator: bool) -> tuple[Policy, ...]:
    supported = (
        with_supported_keys(policy, fields.where, fields.report, operator=operator)
        for policy, fields in policies
    )
    return tuple(policy for policy in supported if policy is not None)


def _read_queue(fields: Fields) -> Queue:
    """A queue; exports of RabbitMQ 4 give its type outside the arguments too."""
    queue = objects.read_queue(fields)
    queue_type = fields.text("type", "classic").removeprefix("rabbit_").removesuffix("_queue")
    if queue_type == "classic" or "x-queue-type" in queue.arguments:
        return queue
    arguments = {"x-queue-type": queue_type, **queue.arguments}
    return msgspec.structs.replace(queue, arguments=arguments)
