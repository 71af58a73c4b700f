"""Definitions documents with problems."""

import pytest

from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError, Problem


def problems_of(document):
    with pytest.raises(InvalidTopologyError) as raised:
        load_definitions(document)
    return raised.value.problems


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
        Problem("parameters[0].value.pattern", "is missing"),
        Problem("parameters[0].value.definition", "is missing"),
        Problem("parameters[1].value.pattern", "is missing"),
        Problem("parameters[1].value.definition", "is missing"),
        Problem("parameters[2].vhost", "no vhost is named 'none'"),
        Problem("parameters[2].value.pattern", "is missing"),
        Problem("parameters[2].value.definition", "is missing"),
        Problem("users[0].name", "is missing"),
        Problem("queues[2].arguments.x-message-ttl", "expected an integer, got a string"),
        Problem("bindings[2].source", "no exchange is named 'order' (did you mean 'orders'?)"),
        Problem(
            "parameters[3].value.pattern",
            "pattern '(' is not a valid regular expression (missing ): ()",
        ),
        Problem("parameters[3].value.definition.max-length", "must not be negative, but is -1"),
        Problem("exchanges[3]", "'orders' is declared differently at exchanges[0]"),
        Problem(
            "policies[0].pattern",
            "pattern '(' is not a valid regular expression (missing ): ()",
        ),
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
def test_a_document_that_is_no_json_object_is_one_problem(document, what):
    assert problems_of(document) == (Problem("document", what),)


def test_deeply_nested_arguments_are_a_problem():
    arguments = '{"a":' * 100 + "1" + "}" * 100

    assert problems_of(f'{{"queues": [{{"name": "q", "arguments": {arguments}}}]}}') == (
        Problem("queues[0].arguments", "is nested more than 64 levels deep"),
    )


@pytest.mark.parametrize(
    "document",
    [
        {"queues": [1] * 50},
        {"queues": [{}] * 50},
        {"queues": [{"name": f"q{n}", "arguments": {"x-message-ttl": "1"}} for n in range(50)]},
    ],
)
def test_a_document_with_very_many_problems_lists_the_first(document):
    with pytest.raises(InvalidTopologyError) as raised:
        load_definitions(document, max_problems=5)

    places = [problem.where.partition(".")[0] for problem in raised.value.problems]
    assert places == [f"queues[{number}]" for number in range(6)]
    assert raised.value.problems[-1].what == "has more problems: only the first 5 are listed"


def test_a_document_with_the_maximum_of_problems_lists_all():
    with pytest.raises(InvalidTopologyError) as raised:
        load_definitions({"queues": [1] * 5}, max_problems=5)

    assert len(raised.value.problems) == 5


def test_of_much_that_is_skipped_the_number_is_told():
    document = {f"novel{number}": 1 for number in range(8)}

    skipped = load_definitions(document, max_problems=5).skipped

    assert [problem.where for problem in skipped] == [
        *(f"novel{number}" for number in range(5)),
        "document",
    ]
    assert skipped[-1].what == "3 more are skipped"
