"""Single declarations as JSON objects, with the member names of RabbitMQ's definitions files."""

from typing import cast

import msgspec

from topology.declarations import (
    Binding,
    Declaration,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    VhostLimits,
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


def read_topic_permission(fields: Fields) -> TopicPermission:
    """Read a topic permission."""
    return TopicPermission(
        user=fields.text("user"),
        exchange=fields.text("exchange"),
        write=fields.text("write"),
        read=fields.text("read"),
    )


def read_vhost_limits(fields: Fields) -> VhostLimits:
    """Read the limits of a vhost."""

    def limit(name: str) -> int | None:
        return None if fields.value(name) is None else fields.integer(name, 0)

    return VhostLimits(limit("max-connections"), limit("max-queues"))


def declaration_document(declaration: Declaration) -> dict[str, object]:
    """Write a declaration as RabbitMQ exports it; `exclusive` only if it is true."""
    if isinstance(declaration, VhostLimits):
        return dict(msgspec.to_builtins(declaration))
    members = msgspec.structs.asdict(declaration)
    if isinstance(declaration, Queue) and not declaration.exclusive:
        del members["exclusive"]
    if isinstance(declaration, Policy):
        members["apply-to"] = members.pop("apply_to")
    return {
        name: table_to_json(value) if isinstance(value, dict) else value
        for name, value in members.items()
    }
