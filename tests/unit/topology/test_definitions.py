"""Definitions documents, in and out."""

import json

import pytest

from topology.declarations import (
    Binding,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.definitions import Loaded, User, dump_definitions, load_definitions
from topology.errors import InvalidTopologyError, Problem

CLUSTER = {
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
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {}},
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
)


def loaded(**members):
    return load_definitions(members)


def problems_of(document):
    with pytest.raises(InvalidTopologyError) as raised:
        load_definitions(document)
    return raised.value.problems


def test_the_export_of_a_whole_cluster_loads_unchanged():
    assert load_definitions(CLUSTER) == Loaded(
        vhosts={
            "/": Definitions(permissions=(Permission("admin", ".*", ".*", ".*"),)),
            "shop": SHOP,
        },
        left_out=(
            Problem("exchanges[2].type", "exchange type 'x-delayed-message' is not modelled"),
            Problem("queues[1]", "queue type 'stream' is not modelled"),
            Problem("queues[2]", "'amq.gen-1' is a name of the broker's own"),
            Problem("policies[0].definition.ha-mode", "has no effect here"),
            Problem("policies[0].definition.novel-key", "is not modelled"),
            Problem("parameters[1]", "a 'shovel' parameter is not modelled"),
            Problem("parameters[2]", "a 'vhost-limits' parameter is not modelled"),
            Problem("topic_permissions[0]", "topic permissions are not modelled"),
            Problem(
                "global_parameters[2]", "global parameter 'mqtt_default_vhosts' is not modelled"
            ),
            Problem("bindings[3]", "the queue 'amq.gen-1' was left out"),
            Problem("bindings[1]", "the queue 'log' was left out"),
            Problem("bindings[2]", "the exchange 'later' was left out"),
        ),
        users=(
            User("admin", ("administrator",)),
            User("app", ("monitoring", "management")),
            User("plain"),
        ),
    )


def test_text_bytes_and_decoded_documents_load_alike():
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

    assert load_definitions(document, default_vhost="here") == Loaded(
        {
            "here": Definitions(
                queues=(Queue("q"),),
                operator_policies=(Policy("cap", "", {"max-length": 1}, 0, "queues"),),
            )
        }
    )


def test_without_a_list_of_vhosts_they_are_those_that_objects_name():
    found = loaded(queues=[{"name": "a", "vhost": "one"}, {"name": "b"}])

    assert found.vhosts == {
        "/": Definitions(queues=(Queue("b"),)),
        "one": Definitions(queues=(Queue("a"),)),
    }


def test_an_empty_document_is_an_empty_vhost():
    assert load_definitions({}) == Loaded({"/": Definitions()})


def test_operator_policies_may_have_an_array_of_their_own():
    policy = {"name": "cap", "pattern": "", "definition": {"max-length": 1}, "apply-to": "all"}

    assert loaded(operator_policies=[policy]).vhosts["/"] == Definitions(
        operator_policies=(Policy("cap", "", {"max-length": 1}),)
    )


def test_policies_among_the_parameters_are_policies():
    value = {"pattern": "", "definition": {"max-length": 1}, "extra": 1}
    found = loaded(parameters=[{"component": "policy", "name": "p", "value": value}])

    assert found.vhosts["/"] == Definitions(policies=(Policy("p", "", {"max-length": 1}),))
    assert found.left_out == (Problem("parameters[0].value.extra", "is not a known member"),)


def test_exclusive_queues_and_null_sections_load():
    found = load_definitions({"queues": [{"name": "q", "exclusive": True}], "bindings": None})

    assert found == Loaded({"/": Definitions(queues=(Queue("q", exclusive=True),))})


@pytest.mark.parametrize(
    ("vhost", "queue", "arguments"),
    [
        ({}, {}, {}),
        ({}, {"type": "classic"}, {}),
        ({}, {"type": "quorum"}, {"x-queue-type": "quorum"}),
        ({}, {"type": "rabbit_quorum_queue"}, {"x-queue-type": "quorum"}),
        ({"default_queue_type": "quorum"}, {}, {"x-queue-type": "quorum"}),
        ({"metadata": {"default_queue_type": "quorum"}}, {}, {"x-queue-type": "quorum"}),
        ({"default_queue_type": "quorum"}, {"type": "classic"}, {}),
        ({"default_queue_type": "undefined"}, {}, {}),
        ({"default_queue_type": 5}, {}, {}),
        (
            {"default_queue_type": "quorum"},
            {"arguments": {"x-queue-type": "classic"}},
            {"x-queue-type": "classic"},
        ),
    ],
)
def test_a_queue_is_of_the_type_it_says_or_its_vhosts_default(vhost, queue, arguments):
    found = loaded(vhosts=[{"name": "/", **vhost}], queues=[{"name": "q", **queue}])

    assert found == Loaded({"/": Definitions(queues=(Queue("q", arguments=arguments),))})


def test_what_has_no_effect_is_named_and_mostly_kept():
    found = loaded(
        exchanges=[
            {"name": ""},
            {"name": "amq.topic", "type": "topic"},
            {"name": "amq.mine"},
            {"name": "typo", "type": "topci"},
            {"name": "x", "arguments": {"alternate_exchange": "y"}, "polcy": 1},
        ],
        queues=[
            {"name": "q", "arguments": {"x-mesage-ttl": 1, "x-single-active-consumer": True}},
            {"name": "typo", "type": "quorom"},
        ],
        bindings=[
            {"source": "", "destination": "q", "routing_key": "q"},
            {"source": "x", "destination": "amq.mine", "destination_type": "exchange"},
        ],
        policy=[],
        somthing_else=1,
    )

    assert found == Loaded(
        {
            "/": Definitions(
                exchanges=(Exchange("x", arguments={"alternate_exchange": "y"}),),
                queues=(
                    Queue("q", arguments={"x-mesage-ttl": 1, "x-single-active-consumer": True}),
                ),
            )
        },
        (
            Problem("exchanges[0]", "every vhost has the exchange ''"),
            Problem("exchanges[1]", "every vhost has the exchange 'amq.topic'"),
            Problem("exchanges[2]", "'amq.mine' is a name of the broker's own"),
            Problem(
                "exchanges[3].type",
                "exchange type 'topci' is not modelled (did you mean 'topic'?)",
            ),
            Problem(
                "exchanges[4].arguments.alternate_exchange",
                "is no argument that has an effect (did you mean 'alternate-exchange'?)",
            ),
            Problem("exchanges[4].polcy", "is not a known member"),
            Problem(
                "queues[0].arguments.x-mesage-ttl",
                "is no argument that has an effect (did you mean 'x-message-ttl'?)",
            ),
            Problem(
                "queues[0].arguments.x-single-active-consumer",
                "single active consumers are not modelled",
            ),
            Problem("queues[1]", "queue type 'quorom' is not modelled (did you mean 'quorum'?)"),
            Problem("bindings[0]", "the default exchange's bindings are implicit"),
            Problem("policy", "is not a known member (did you mean 'policies'?)"),
            Problem("somthing_else", "is not a known member"),
            Problem("bindings[1]", "the exchange 'amq.mine' was left out"),
        ),
    )


def test_what_stands_there_twice_alike_is_taken_once():
    queue = {"name": "q"}
    binding = {"source": "amq.topic", "destination": "q", "routing_key": "k"}
    permission = {"user": "app", "configure": "", "write": "", "read": ""}
    found = loaded(
        queues=[queue, queue],
        bindings=[binding, {**binding, "routing_key": ""}, binding],
        permissions=[permission, permission],
    )

    assert found == Loaded(
        {
            "/": Definitions(
                queues=(Queue("q"),),
                bindings=(
                    Binding("amq.topic", "q", "queue", "k"),
                    Binding("amq.topic", "q", "queue", ""),
                ),
                permissions=(Permission("app", "", "", ""),),
            )
        },
        (
            Problem("queues[1]", "repeats queues[0]"),
            Problem("bindings[2]", "repeats bindings[0]"),
            Problem("permissions[1]", "repeats permissions[0]"),
        ),
    )


def test_all_problems_are_listed_with_the_paths_of_the_document():
    assert problems_of(
        {
            "vhosts": [{"name": "shop"}, {"tags": []}, {"name": "other"}],
            "exchanges": [
                {"name": "orders", "vhost": "shop", "type": "topic"},
                {"vhost": "shop", "type": "topic"},
                {"name": "orders", "vhost": "other"},
                {"name": "orders", "vhost": "shop", "type": "fanout"},
            ],
            "queues": [
                {"name": "work", "vhost": "shpo"},
                {"name": "broken", "vhost": "shop", "durable": "yes"},
                {"name": "ttl", "vhost": "shop", "arguments": {"x-message-ttl": "soon"}},
                {"name": "vhost", "vhost": 1},
                "queue",
            ],
            "bindings": [
                {"source": "orders", "vhost": "shop", "destination": "broken"},
                {"source": "orders", "vhost": "shop", "destination_type": "topic"},
                {"source": "order", "vhost": "shop", "destination": "ttl"},
            ],
            "policies": [{"name": "p", "vhost": "shop", "pattern": "("}],
            "permissions": [{"user": "app", "vhost": "shop", "configure": 1}],
            "parameters": [
                {"component": "operator_policy", "vhost": "shop", "value": {}},
                {"component": "operator_policy", "name": "a", "vhost": "shop", "value": {}},
                {"component": "operator_policy", "name": "b", "vhost": "none", "value": {}},
                {
                    "component": "operator_policy",
                    "name": "c",
                    "vhost": "shop",
                    "value": {"pattern": "(", "definition": {"max-length": -1}},
                },
            ],
            "operator_policies": {"name": "p"},
            "users": [{}],
        }
    ) == (
        Problem("vhosts[1].name", "is missing"),
        Problem("exchanges[1].name", "is missing"),
        Problem("queues[0].vhost", "no vhost is named 'shpo' (did you mean 'shop'?)"),
        Problem("queues[1].durable", "expected a boolean, got a string"),
        Problem("queues[3].vhost", "expected a string, got a number"),
        Problem("queues[4]", "expected an object, got a string"),
        Problem("bindings[1].destination_type", "must be one of queue, exchange, not 'topic'"),
        Problem("bindings[1].destination", "is missing"),
        Problem("policies[0].definition", "is missing"),
        Problem("operator_policies", "expected an array, got an object"),
        Problem("permissions[0].configure", "expected a string, got a number"),
        Problem("permissions[0].write", "is missing"),
        Problem("permissions[0].read", "is missing"),
        Problem("parameters[0].name", "is missing"),
        Problem("parameters[1].value.pattern", "is missing"),
        Problem("parameters[1].value.definition", "is missing"),
        Problem("parameters[2].vhost", "no vhost is named 'none'"),
        Problem("users[0].name", "is missing"),
        Problem("queues[2].arguments.x-message-ttl", "expected an integer, got longstr"),
        Problem("bindings[2].source", "no exchange is named 'order' (did you mean 'orders'?)"),
        Problem(
            "parameters[3].value.pattern",
            "pattern '(' is not a valid regular expression (missing ): ()",
        ),
        Problem("parameters[3].value.definition.max-length", "-1 is not a valid maximum length"),
        Problem("exchanges[3]", "'orders' is declared differently at exchanges[0]"),
    )


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (b"", "is not JSON: Input data was truncated"),
        ("{", "is not JSON: Input data was truncated"),
        (b"{]", "is not JSON: JSON is malformed: object keys must be strings (byte 1)"),
        (b"\xff", "is not JSON: JSON is malformed: invalid character (byte 0)"),
        (
            "[" * 100_000,
            "is not JSON: maximum recursion depth exceeded while deserializing an object",
        ),
        ("[]", "expected an object, got an array"),
        (None, "expected an object, got null"),
        ("\ud800", "is not JSON: 'utf-8' codec can't encode character '\\ud800' in position 0:"
                   " surrogates not allowed"),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_one_problem(document, what):
    assert problems_of(document) == (Problem("document", what),)


def test_deep_arguments_are_a_problem_not_a_crash():
    arguments = '{"a":' * 100 + "1" + "}" * 100

    assert problems_of(f'{{"queues": [{{"name": "q", "arguments": {arguments}}}]}}') == (
        Problem("queues[0].arguments", "is nested more than 64 levels deep"),
    )


def test_definitions_are_written_as_rabbitmq_exports_them():
    written = dump_definitions({"/": Definitions(), "shop": SHOP}, (User("app", ("management",)),))

    assert written == {
        "users": [{"name": "app", "tags": ["management"]}],
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "permissions": [
            {"vhost": "shop", "user": "app", "configure": "", "write": "^orders$", "read": "^work"}
        ],
        "parameters": [
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
            }
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

    assert load_definitions(dump_definitions({"/": definitions})) == Loaded(
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
