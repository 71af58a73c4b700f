"""The topology of a scenario: declared like by a client, without unsupported items."""

from topology.declarations import Binding, Definitions, Exchange, Policy, Queue
from topology.definitions.json_object import Report
from topology.definitions.load import declarations_of_client
from topology.errors import Problem
from topology.values import Table


def read(document):
    """The declarations, the problems, and the skipped items."""
    report = Report()
    declarations = declarations_of_client(document, "definitions", report)
    return declarations, report.problems, report.skipped


def test_every_kind_is_read_in_the_order_of_the_document():
    document = {
        "exchanges": [{"name": "x", "type": "topic"}, {"name": "y"}],
        "queues": [{"name": "q", "arguments": {"x-max-length": 1}}],
        "bindings": [{"source": "x", "destination": "q", "routing_key": "#"}],
        "policies": [{"name": "p", "pattern": "q", "definition": {"expires": 5}, "priority": 2}],
        "operator_policies": [{"name": "o", "pattern": "q", "definition": {"max-length": 3}}],
    }

    assert read(document) == (
        Definitions(
            policies=(Policy("p", "q", {"expires": 5}, 2, "all"),),
            operator_policies=(Policy("o", "q", {"max-length": 3}, 0, "queues"),),
            exchanges=(Exchange("x", "topic"), Exchange("y", "direct")),
            queues=(Queue("q", arguments={"x-max-length": 1}),),
            bindings=(Binding("x", "q", "queue", "#"),),
        ),
        [],
        [],
    )


def test_no_definitions_declare_nothing():
    assert read(None) == (Definitions(), [], [])
    assert read({}) == (Definitions(), [], [])


def test_unsupported_items_are_skipped_with_their_bindings():
    document = {
        "exchanges": [
            {"name": "later", "type": "x-delayed-message"},
            {"name": "x", "type": "topik"},
        ],
        "queues": [
            {"name": "log", "arguments": {"x-queue-type": "stream"}},
            {"name": "q", "colour": "red", "arguments": {"x-mesage-ttl": 5, "mine": True}},
        ],
        "bindings": [
            {"source": "later", "destination": "q"},
            {"source": "amq.topic", "destination": "log"},
            {"source": "amq.topic", "destination": "x", "destination_type": "exchange"},
            {"source": "amq.topic", "destination": "q"},
        ],
        "policies": [
            {"name": "p", "pattern": "", "definition": {"max-lenght": 1, "ha-mode": "all"}}
        ],
        "shovels": [{}],
    }

    declarations, problems, skipped = read(document)

    assert declarations == Definitions(
        policies=(Policy("p", "", {"ha-mode": "all"}),),
        queues=(Queue("q", arguments={"x-mesage-ttl": 5, "mine": True}),),
        bindings=(Binding("amq.topic", "q"),),
    )
    assert problems == []
    assert skipped == [
        Problem(
            "definitions.exchanges[0].type", "exchange type 'x-delayed-message' is not supported"
        ),
        Problem(
            "definitions.exchanges[1].type",
            "exchange type 'topik' is not supported (did you mean 'topic'?)",
        ),
        Problem("definitions.queues[0]", "queue type 'stream' is not supported"),
        Problem(
            "definitions.queues[1].arguments.x-mesage-ttl",
            "is an unknown argument and has no effect (did you mean 'x-message-ttl'?)",
        ),
        Problem("definitions.queues[1].arguments.mine", "is an unknown argument and has no effect"),
        Problem("definitions.queues[1].colour", "is not a known member"),
        Problem("definitions.policies[0].definition.ha-mode", "has no effect here"),
        Problem(
            "definitions.policies[0].definition.max-lenght",
            "is not a known key of policies and has no effect (did you mean 'max-length'?)",
        ),
        Problem("definitions.shovels", "is not a known member"),
        Problem("definitions.bindings[0]", "the exchange 'later' is skipped"),
        Problem("definitions.bindings[1]", "the queue 'log' is skipped"),
        Problem("definitions.bindings[2]", "the exchange 'x' is skipped"),
    ]


def test_an_export_of_a_cluster_may_be_pasted_in():
    document = {
        "rabbit_version": "4.0.5",
        "rabbitmq_version": "4.0.5",
        "users": [{"name": "guest"}],
        "vhosts": [{"name": "shop"}, {"name": "bank"}],
        "permissions": [{"user": "guest"}],
        "topic_permissions": [],
        "parameters": [
            {
                "vhost": "shop",
                "component": "operator_policy",
                "name": "o",
                "value": {"pattern": "q", "definition": {"max-length": 3}, "apply-to": "queues"},
            },
            {
                "vhost": "shop",
                "component": "policy",
                "name": "p",
                "value": {"pattern": "q", "definition": {"expires": 9}, "odd": 1},
            },
            {"vhost": "shop", "component": "shovel", "name": "s", "value": {}},
        ],
        "global_parameters": [{"name": "cluster_name"}],
        "queues": [
            {"vhost": "shop", "name": "q", "type": "quorum"},
            {
                "vhost": "shop",
                "name": "r",
                "type": "rabbit_quorum_queue",
                "arguments": {"x-queue-type": "quorum"},
            },
            {"vhost": "bank", "name": "vault"},
        ],
    }

    declarations, problems, skipped = read(document)

    quorum: Table = {"x-queue-type": "quorum"}
    assert declarations == Definitions(
        policies=(Policy("p", "q", {"expires": 9}),),
        operator_policies=(Policy("o", "q", {"max-length": 3}, 0, "queues"),),
        queues=(Queue("q", arguments=quorum), Queue("r", arguments=quorum)),
    )
    assert problems == []
    assert skipped == [
        Problem("definitions.queues[2].vhost", "a scenario has one vhost, here 'shop'"),
        Problem("definitions.parameters[1].value.odd", "is not a known member"),
        Problem("definitions.parameters[2]", "'shovel' parameters are not supported"),
    ]


def test_a_policy_without_supported_keys_is_skipped():
    document = {"policies": [{"name": "p", "pattern": "", "definition": {"novel-key": 1}}]}

    declarations, problems, skipped = read(document)

    assert declarations == Definitions()
    assert problems == []
    assert skipped == [
        Problem(
            "definitions.policies[0].definition.novel-key",
            "is not a known key of policies and has no effect",
        ),
        Problem("definitions.policies[0]", "none of its keys is supported"),
    ]


def test_declarations_that_rabbitmq_would_refuse_are_kept():
    document = {
        "queues": [
            {"name": "q", "arguments": {"x-queue-type": "clasic"}},
            {"name": "q", "arguments": {"x-message-ttl": -1}},
        ],
        "bindings": [{"source": "", "destination": "nowhere"}],
    }

    declarations, problems, skipped = read(document)

    assert (len(declarations.queues), len(declarations.bindings)) == (2, 1)
    assert (problems, skipped) == ([], [])


def test_wrong_types_are_problems():
    document = {
        "exchanges": {},
        "queues": [3, {"name": 4}, {"name": "q", "vhost": []}],
        "bindings": [{"source": "x"}],
        "policies": [{"name": "p", "pattern": "q", "definition": 1}],
        "parameters": [{"component": "policy"}],
    }

    _, problems, _ = read(document)

    assert problems == [
        Problem("definitions.exchanges", "expected an array, got an object"),
        Problem("definitions.queues[0]", "expected an object, got a number"),
        Problem("definitions.queues[1].name", "expected a string, got a number"),
        Problem("definitions.queues[2].vhost", "expected a string, got an array"),
        Problem("definitions.bindings[0].destination", "is missing"),
        Problem("definitions.policies[0].definition", "expected an object, got a number"),
        Problem("definitions.parameters[0].name", "is missing"),
    ]
    assert read([])[1] == [Problem("definitions", "expected an object, got an array")]
