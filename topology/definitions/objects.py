"""Single declarations as JSON objects, with the member names of RabbitMQ's definitions files."""

from typing import cast

from topology.declarations import (
    Binding,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.definitions.json_object import Fields
from topology.values import table_to_json

DESTINATION_TYPES = ("queue", "exchange")


def read_exchange(fields: Fields) -> Exchange:
    """Read an exchange."""
    return Exchange(
        name=fields.text("name"),
        type=fields.text("type", "direct"),
        durable=fields.flag("durable", default=True),
        auto_delete=fields.flag("auto_delete", default=False),
        internal=fields.flag("internal", default=False),
        arguments=fields.table("arguments"),
    )


def read_queue(fields: Fields) -> Queue:
    """Read a queue."""
    return Queue(
        name=fields.text("name"),
        durable=fields.flag("durable", default=True),
        auto_delete=fields.flag("auto_delete", default=False),
        exclusive=fields.flag("exclusive", default=False),
        arguments=fields.table("arguments"),
    )


def read_binding(fields: Fields) -> Binding:
    """Read a binding."""
    destination_type = fields.choice("destination_type", DESTINATION_TYPES, "queue")
    return Binding(
        source=fields.text("source"),
        destination=fields.text("destination"),
        destination_type=cast("DestinationType", destination_type),
        routing_key=fields.text("routing_key", ""),
        arguments=fields.table("arguments"),
    )


def read_policy(fields: Fields, name: str | None = None, apply_to: str = "all") -> Policy:
    """Read a policy; `name` if it is outside the object, `apply_to` as the default."""
    return Policy(
        name=fields.text("name") if name is None else name,
        pattern=fields.text("pattern"),
        definition=fields.table("definition", required=True),
        priority=fields.integer("priority", 0),
        apply_to=fields.text("apply-to", apply_to),
    )


def read_operator_policy(fields: Fields, name: str | None = None) -> Policy:
    """Read an operator policy, which applies to queues by default."""
    return read_policy(fields, name, "queues")


def read_permission(fields: Fields) -> Permission:
    """Read a permission."""
    return Permission(
        user=fields.text("user"),
        configure=fields.text("configure"),
        write=fields.text("write"),
        read=fields.text("read"),
    )


def exchange_document(exchange: Exchange) -> dict[str, object]:
    """Write an exchange as RabbitMQ exports it."""
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
    }


def queue_document(queue: Queue) -> dict[str, object]:
    """Write a queue as RabbitMQ exports it, and `exclusive` if it is true."""
    document: dict[str, object] = {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": table_to_json(queue.arguments),
    }
    return document | {"exclusive": True} if queue.exclusive else document


def binding_document(binding: Binding) -> dict[str, object]:
    """Write a binding as RabbitMQ exports it."""
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": table_to_json(binding.arguments),
    }


def policy_document(policy: Policy) -> dict[str, object]:
    """Write a policy as RabbitMQ exports it."""
    return {
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": table_to_json(policy.definition),
        "priority": policy.priority,
    }


def permission_document(permission: Permission) -> dict[str, object]:
    """Write a permission as RabbitMQ exports it."""
    return {
        "user": permission.user,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }
