"""Single declarations as JSON objects."""

import pytest

from topology.declarations import Binding, Exchange, Permission, Policy, Queue
from topology.definitions.objects import (
    binding_document,
    exchange_document,
    parse_binding,
    parse_exchange,
    parse_operator_policy,
    parse_permission,
    parse_policy,
    parse_queue,
    permission_document,
    policy_document,
    queue_document,
)
from topology.errors import InvalidTopologyError, Problem

WRITTEN = [
    (
        parse_exchange,
        exchange_document,
        Exchange("x", "topic", False, True, True, {"alternate-exchange": "ae"}),
        {
            "name": "x",
            "type": "topic",
            "durable": False,
            "auto_delete": True,
            "internal": True,
            "arguments": {"alternate-exchange": "ae"},
        },
    ),
    (
        parse_queue,
        queue_document,
        Queue("q", arguments={"x-max-length": 1, "b": b"x"}),
        {
            "name": "q",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 1, "b": {"$bytes": "eA=="}},
        },
    ),
    (
        parse_queue,
        queue_document,
        Queue("q", False, True, True),
        {"name": "q", "durable": False, "auto_delete": True, "exclusive": True, "arguments": {}},
    ),
    (
        parse_binding,
        binding_document,
        Binding("x", "y", "exchange", "k", {"a": None}),
        {
            "source": "x",
            "destination": "y",
            "destination_type": "exchange",
            "routing_key": "k",
            "arguments": {"a": None},
        },
    ),
    (
        parse_policy,
        policy_document,
        Policy("p", "^q", {"max-length": 1}, 3, "queues"),
        {
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 1},
            "priority": 3,
        },
    ),
    (
        parse_permission,
        permission_document,
        Permission("app", "c", "w", ""),
        {"user": "app", "configure": "c", "write": "w", "read": ""},
    ),
]


def problems_of(parse, document):
    with pytest.raises(InvalidTopologyError) as raised:
        parse(document)
    return raised.value.problems


@pytest.mark.parametrize(("parse", "write", "declaration", "document"), WRITTEN)
def test_declarations_are_written_and_read_back(parse, write, declaration, document):
    assert write(declaration) == document
    assert parse(document) == declaration
    assert parse(document | {"vhost": "/"}) == declaration


def test_members_with_defaults_may_be_missing_or_null():
    assert parse_exchange({"name": "x"}) == Exchange("x")
    assert parse_queue({"name": "q", "durable": None, "arguments": []}) == Queue("q")
    assert parse_binding({"source": "x", "destination": "q"}) == Binding("x", "q")
    policy = {"name": "p", "pattern": "", "definition": {}}
    assert parse_policy(policy) == Policy("p", "", {})
    assert parse_operator_policy(policy) == Policy("p", "", {}, apply_to="queues")


def test_every_problem_is_named_with_its_path():
    document = {
        "name": 5,
        "durable": "yes",
        "auto_delete": 0,
        "arguments": {"x": {"$bytes": 1}},
        "exclusiv": True,
        "unlike": 1,
    }

    assert problems_of(parse_queue, document) == (
        Problem("queue.name", "expected a string, got a number"),
        Problem("queue.durable", "expected a boolean, got a string"),
        Problem("queue.auto_delete", "expected a boolean, got a number"),
        Problem("queue.arguments", "$bytes must hold base64 text"),
        Problem("queue.exclusiv", "is not a known member (did you mean 'exclusive'?)"),
        Problem("queue.unlike", "is not a known member"),
    )


def test_what_is_required_must_be_there():
    assert problems_of(parse_policy, {"priority": "high"}) == (
        Problem("policy.name", "is missing"),
        Problem("policy.pattern", "is missing"),
        Problem("policy.definition", "is missing"),
        Problem("policy.priority", "expected a whole number, got a string"),
    )
    assert problems_of(parse_queue, {"arguments": {}}) == (Problem("queue.name", "is missing"),)
    assert problems_of(parse_exchange, {"name": "x", "arguments": "none"}) == (
        Problem("exchange.arguments", "expected an object, got a string"),
    )


def test_an_empty_object_lacks_what_is_required_too():
    assert problems_of(parse_exchange, {}) == (Problem("exchange.name", "is missing"),)


def test_what_is_no_object_is_one_problem():
    assert problems_of(parse_binding, ["x", "q"]) == (
        Problem("binding", "expected an object, got an array"),
    )


def test_a_choice_is_one_of_its_words():
    assert problems_of(
        parse_binding, {"source": "x", "destination": "q", "destination_type": "queu"}
    ) == (
        Problem(
            "binding.destination_type",
            "must be one of queue, exchange, not 'queu' (did you mean 'queue'?)",
        ),
    )
    assert problems_of(
        parse_binding, {"source": "x", "destination": "q", "destination_type": 1}
    ) == (Problem("binding.destination_type", "expected a string, got a number"),)


def test_members_with_strange_names_are_unknown_members():
    assert problems_of(parse_exchange, {"name": "x", 1: 2}) == (
        Problem("exchange.1", "is not a known member"),
    )
