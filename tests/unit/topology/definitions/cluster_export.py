"""The export of a real cluster, and the definitions loaded from it."""

from typing import Any

from topology.declarations import (
    Binding,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    VhostLimits,
)

CLUSTER: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "rabbitmq_version": "3.10.8",
    "product_name": "RabbitMQ",
    "product_version": "3.10.8",
    "users": [
        {
            "name": "admin",
            "password_hash": "c2VjcmV0",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {},
        },
        {"name": "app", "password_hash": "c2VjcmV0", "tags": "monitoring,management"},
        {"name": "plain", "tags": ""},
    ],
    "vhosts": [{"name": "/"}, {"name": "shop", "metadata": {"description": "x", "tags": []}}],
    "permissions": [
        {"user": "admin", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "app", "vhost": "shop", "configure": "", "write": "^orders$", "read": "^work"},
    ],
    "topic_permissions": [
        {"user": "app", "vhost": "shop", "exchange": "orders", "write": ".*", "read": ".*"}
    ],
    "parameters": [
        {
            "vhost": "shop",
            "component": "operator_policy",
            "name": "cap",
            "value": {
                "pattern": ".*",
                "definition": {"max-length": 1000},
                "priority": 1,
                "apply-to": "queues",
            },
        },
        {"vhost": "/", "component": "shovel", "name": "move", "value": {"src-uri": "amqp://"}},
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": []},
        {
            "vhost": "shop",
            "component": "vhost-limits",
            "name": "limits",
            "value": {"max-connections": 10, "max-queues": 100},
        },
    ],
    "global_parameters": [
        {"name": "cluster_name", "value": "rabbit@host"},
        {"name": "internal_cluster_id", "value": "id"},
        {"name": "mqtt_default_vhosts", "value": {}},
    ],
    "policies": [
        {
            "vhost": "shop",
            "name": "dlx",
            "pattern": "^(?!amq\\.).*",
            "apply-to": "queues",
            "definition": {"dead-letter-exchange": "dead", "ha-mode": "all", "novel-key": 1},
            "priority": 0,
        }
    ],
    "queues": [
        {"name": "work", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}},
        {
            "name": "log",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "stream"},
        },
        {
            "name": "amq.gen-1",
            "vhost": "/",
            "durable": False,
            "auto_delete": True,
            "arguments": [],
        },
    ],
    "exchanges": [
        {
            "name": "orders",
            "vhost": "shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        },
        {"name": "dead", "vhost": "shop", "type": "fanout", "durable": True},
        {
            "name": "later",
            "vhost": "shop",
            "type": "x-delayed-message",
            "arguments": {"x-delayed-type": "direct"},
        },
    ],
    "bindings": [
        {
            "source": "orders",
            "vhost": "shop",
            "destination": "work",
            "destination_type": "queue",
            "routing_key": "order.#",
            "arguments": {},
        },
        {
            "source": "orders",
            "vhost": "shop",
            "destination": "log",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        },
        {
            "source": "later",
            "vhost": "shop",
            "destination": "work",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {},
        },
        {
            "source": "amq.direct",
            "vhost": "/",
            "destination": "amq.gen-1",
            "destination_type": "queue",
            "routing_key": "k",
            "arguments": {},
        },
    ],
}
SHOP = Definitions(
    exchanges=(Exchange("orders", "topic"), Exchange("dead", "fanout")),
    queues=(Queue("work"),),
    bindings=(Binding("orders", "work", "queue", "order.#"),),
    policies=(
        Policy(
            "dlx",
            "^(?!amq\\.).*",
            {"dead-letter-exchange": "dead", "ha-mode": "all"},
            apply_to="queues",
        ),
    ),
    operator_policies=(Policy("cap", ".*", {"max-length": 1000}, 1, "queues"),),
    permissions=(Permission("app", "", "^orders$", "^work"),),
    topic_permissions=(TopicPermission("app", "orders", ".*", ".*"),),
    limits=(VhostLimits(max_connections=10, max_queues=100),),
)
