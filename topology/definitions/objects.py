"""Single declarations as JSON objects, with the member names of RabbitMQ's definitions files.

`parse_*` read one that somebody sends as a command or writes into a scenario: every problem is
raised at once, unknown members among them. `read_*` are the same for objects inside a larger
document, whose reader keeps the report. `*_document` write them.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from topology.declarations import (
    Binding,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.definitions.json_object import MOST_PROBLEMS, Fields, Report
from topology.errors import InvalidTopologyError
from topology.values import table_to_json

Declaration = TypeVar("Declaration")

DESTINATION_TYPES = ("queue", "exchange")


def parse_exchange(document: object, where: str = "exchange") -> Exchange:
    """The exchange that an object describes.

    Raises:
        InvalidTopologyError: with every problem; `where` begins their paths.
    """
    return _parse(document, where, read_exchange)


def parse_queue(document: object, where: str = "queue") -> Queue:
    """The queue that an object describes; raises as `parse_exchange`."""
    return _parse(document, where, read_queue)


def parse_binding(document: object, where: str = "binding") -> Binding:
    """The binding that an object describes; raises as `parse_exchange`."""
    return _parse(document, where, read_binding)


def parse_policy(document: object, where: str = "policy") -> Policy:
    """The policy or operator policy that an object describes; raises as `parse_exchange`."""
    return _parse(document, where, read_policy)


def parse_operator_policy(document: object, where: str = "policy") -> Policy:
    """As `parse_policy`, applying to queues if it does not say to what."""
    return _parse(document, where, read_operator_policy)


def parse_permission(document: object, where: str = "permission") -> Permission:
    """The permission that an object describes; raises as `parse_exchange`."""
    return _parse(document, where, read_permission)


def _parse(document: object, where: str, read: Callable[[Fields], Declaration]) -> Declaration:
    report = Report(MOST_PROBLEMS)
    fields = Fields(document, where, report)
    declaration = read(fields)
    for path, what in fields.unknown(also_known=("vhost",)):
        report.problem(path, what)
    if report.problems:
        raise InvalidTopologyError(report.problems)
    return declaration


def read_exchange(fields: Fields) -> Exchange:
    """An exchange."""
    return Exchange(
        name=fields.text("name"),
        type=fields.text("type", "direct"),
        durable=fields.flag("durable", default=True),
        auto_delete=fields.flag("auto_delete", default=False),
        internal=fields.flag("internal", default=False),
        arguments=fields.table("arguments"),
    )


def read_queue(fields: Fields) -> Queue:
    """A queue."""
    return Queue(
        name=fields.text("name"),
        durable=fields.flag("durable", default=True),
        auto_delete=fields.flag("auto_delete", default=False),
        exclusive=fields.flag("exclusive", default=False),
        arguments=fields.table("arguments"),
    )


def read_binding(fields: Fields) -> Binding:
    """A binding."""
    destination_type = fields.choice("destination_type", DESTINATION_TYPES, "queue")
    return Binding(
        source=fields.text("source"),
        destination=fields.text("destination"),
        destination_type=cast("DestinationType", destination_type),
        routing_key=fields.text("routing_key", ""),
        arguments=fields.table("arguments"),
    )


def read_policy(fields: Fields, name: str | None = None, apply_to: str = "all") -> Policy:
    """A policy or operator policy; `name` if it stands elsewhere, `apply_to` as the default."""
    return Policy(
        name=fields.text("name") if name is None else name,
        pattern=fields.text("pattern"),
        definition=fields.table("definition", required=True),
        priority=fields.integer("priority", 0),
        apply_to=fields.text("apply-to", apply_to),
    )


def read_operator_policy(fields: Fields, name: str | None = None) -> Policy:
    """An operator policy: it applies to queues if it does not say to what."""
    return read_policy(fields, name, "queues")


def read_permission(fields: Fields) -> Permission:
    """A permission."""
    return Permission(
        user=fields.text("user"),
        configure=fields.text("configure"),
        write=fields.text("write"),
        read=fields.text("read"),
    )


def exchange_document(exchange: Exchange) -> dict[str, object]:
    """An exchange as RabbitMQ exports it."""
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
    }


def queue_document(queue: Queue) -> dict[str, object]:
    """A queue as RabbitMQ exports it; `exclusive`, which is never exported, only if it is true."""
    document: dict[str, object] = {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": table_to_json(queue.arguments),
    }
    return document | {"exclusive": True} if queue.exclusive else document


def binding_document(binding: Binding) -> dict[str, object]:
    """A binding as RabbitMQ exports it."""
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": table_to_json(binding.arguments),
    }


def policy_document(policy: Policy) -> dict[str, object]:
    """A policy as RabbitMQ exports it."""
    return {
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": table_to_json(policy.definition),
        "priority": policy.priority,
    }


def permission_document(permission: Permission) -> dict[str, object]:
    """A permission as RabbitMQ exports it."""
    return {
        "user": permission.user,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }
