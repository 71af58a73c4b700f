"""Loading and writing definitions documents of whole clusters and single vhosts."""

import json

from tests.unit.topology.definitions.cluster_export import CLUSTER, SHOP
from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.dump import dump_definitions
from topology.definitions.load import LoadedDefinitions, load_definitions
from topology.errors import Problem


def test_the_export_of_a_whole_cluster_loads_unchanged():
    loaded = load_definitions(CLUSTER)

    assert loaded.vhosts == {
        "/": Definitions(permissions=(Permission("admin", ".*", ".*", ".*"),)),
        "shop": SHOP,
    }
    assert loaded.skipped == (
        Problem("exchanges[2].type", "exchange type 'x-delayed-message' is not supported"),
        Problem("queues[1]", "queue type 'stream' is not supported"),
        Problem("queues[2]", "name 'amq.gen-1' is reserved for the broker"),
        Problem("policies[0].definition.ha-mode", "has no effect here"),
        Problem(
            "policies[0].definition.novel-key", "is not a known key of policies and has no effect"
        ),
        Problem("parameters[1]", "'shovel' parameters are not supported"),
        Problem("global_parameters[2]", "global parameter 'mqtt_default_vhosts' is not supported"),
        Problem("bindings[3]", "the queue 'amq.gen-1' is skipped"),
        Problem("bindings[1]", "the queue 'log' is skipped"),
        Problem("bindings[2]", "the exchange 'later' is skipped"),
    )


def test_text_bytes_and_decoded_documents_load_equally():
    text = json.dumps(CLUSTER)

    assert load_definitions(text) == load_definitions(text.encode()) == load_definitions(CLUSTER)


def test_the_export_of_a_single_vhost_loads_into_the_vhost_given():
    document = {
        "rabbit_version": "4.0.5",
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": "elsewhere",
        "explanation": "...",
        "metadata": {},
        "parameters": [
            {"component": "operator_policy", "name": "cap", "value": {
                "pattern": "", "definition": {"max-length": 1}}},
        ],
        "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
        "policies": [],
        "exchanges": [],
        "bindings": [],
    }  # fmt: skip

    assert load_definitions(document, default_vhost="here") == LoadedDefinitions(
        {
            "here": Definitions(
                queues=(Queue("q"),),
                operator_policies=(Policy("cap", "", {"max-length": 1}, 0, "queues"),),
            )
        }
    )


def test_definitions_are_written_as_rabbitmq_exports_them():
    written = dump_definitions({"/": Definitions(), "shop": SHOP})

    assert written == {
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "permissions": [
            {"vhost": "shop", "user": "app", "configure": "", "write": "^orders$", "read": "^work"}
        ],
        "topic_permissions": [
            {"vhost": "shop", "user": "app", "exchange": "orders", "write": ".*", "read": ".*"}
        ],
        "parameters": [
            {
                "vhost": "shop",
                "component": "vhost-limits",
                "name": "limits",
                "value": {"max-connections": 10, "max-queues": 100},
            },
            {
                "vhost": "shop",
                "component": "operator_policy",
                "name": "cap",
                "value": {
                    "pattern": ".*",
                    "apply-to": "queues",
                    "definition": {"max-length": 1000},
                    "priority": 1,
                },
            },
        ],
        "policies": [
            {
                "vhost": "shop",
                "name": "dlx",
                "pattern": "^(?!amq\\.).*",
                "apply-to": "queues",
                "definition": {"dead-letter-exchange": "dead", "ha-mode": "all"},
                "priority": 0,
            }
        ],
        "exchanges": [
            {
                "vhost": "shop",
                "name": "orders",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            },
            {
                "vhost": "shop",
                "name": "dead",
                "type": "fanout",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            },
        ],
        "queues": [
            {
                "vhost": "shop",
                "name": "work",
                "durable": True,
                "auto_delete": False,
                "arguments": {},
            }
        ],
        "bindings": [
            {
                "vhost": "shop",
                "source": "orders",
                "destination": "work",
                "destination_type": "queue",
                "routing_key": "order.#",
                "arguments": {},
            }
        ],
    }
    assert load_definitions(json.dumps(written)).vhosts == {"/": Definitions(), "shop": SHOP}


def test_what_rabbitmq_does_not_export_is_not_written():
    """R-DEF-2."""
    definitions = Definitions(
        exchanges=(Exchange(""), Exchange("amq.topic", "topic")),
        queues=(Queue("mine", exclusive=True), Queue("amq.gen-1"), Queue("q")),
        bindings=(
            Binding("", "q"),
            Binding("amq.topic", "mine"),
            Binding("amq.topic", "amq.gen-1"),
            Binding("amq.topic", "q"),
            Binding("amq.topic", "amq.fanout", "exchange"),
        ),
    )

    assert load_definitions(dump_definitions({"/": definitions})) == LoadedDefinitions(
        {
            "/": Definitions(
                queues=(Queue("q"),),
                bindings=(
                    Binding("amq.topic", "q"),
                    Binding("amq.topic", "amq.fanout", "exchange"),
                ),
            )
        }
    )
