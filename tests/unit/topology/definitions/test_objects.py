"""Single declarations as JSON objects."""

import pytest

from topology.declarations import Binding, Exchange, Permission, Policy, Queue
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    declaration_document,
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
)
from topology.errors import Problem

WRITTEN = [
    (
        read_exchange,
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
        read_queue,
        Queue("q", arguments={"x-max-length": 1, "b": b"x"}),
        {
            "name": "q",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 1, "b": {"$bytes": "eA=="}},
        },
    ),
    (
        read_queue,
        Queue("q", False, True, True),
        {"name": "q", "durable": False, "auto_delete": True, "exclusive": True, "arguments": {}},
    ),
    (
        read_binding,
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
        read_policy,
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
        read_permission,
        Permission("app", "c", "w", ""),
        {"user": "app", "configure": "c", "write": "w", "read": ""},
    ),
]


def read_alone(read, document, where="object"):
    report = Report()
    fields = Fields(document, where, report)
    declaration = read(fields)
    for path, what in fields.unknown(also_known=("vhost",)):
        report.problem(path, what)
    return declaration, tuple(report.problems)


def problems_of(read, document):
    _declaration, problems = read_alone(read, document)
    return problems


@pytest.mark.parametrize(("read", "declaration", "document"), WRITTEN)
def test_written_declarations_are_read_back_unchanged(read, declaration, document):
    assert declaration_document(declaration) == document
    assert read_alone(read, document) == (declaration, ())
    assert read_alone(read, document | {"vhost": "/"}) == (declaration, ())


def test_members_with_defaults_may_be_missing_or_null():
    assert read_alone(read_exchange, {"name": "x"}) == (Exchange("x"), ())
    assert read_alone(read_queue, {"name": "q", "durable": None, "arguments": []}) == (
        Queue("q"),
        (),
    )
    assert read_alone(read_binding, {"source": "x", "destination": "q"}) == (Binding("x", "q"), ())
    policy = {"name": "p", "pattern": "", "definition": {}}
    assert read_alone(read_policy, policy) == (Policy("p", "", {}), ())
    assert read_alone(read_operator_policy, policy) == (Policy("p", "", {}, apply_to="queues"), ())


def test_every_problem_is_named_with_its_path():
    document = {
        "name": 5,
        "durable": "yes",
        "auto_delete": 0,
        "arguments": {"x": {"$bytes": 1}},
        "exclusiv": True,
        "unlike": 1,
    }

    assert problems_of(read_queue, document) == (
        Problem("object.name", "expected a string, got a number"),
        Problem("object.durable", "expected a boolean, got a string"),
        Problem("object.auto_delete", "expected a boolean, got a number"),
        Problem("object.arguments", "$bytes must hold base64 text"),
        Problem("object.exclusiv", "is not a known member (did you mean 'exclusive'?)"),
        Problem("object.unlike", "is not a known member"),
    )


def test_required_members_must_be_present():
    assert problems_of(read_policy, {"priority": "high"}) == (
        Problem("object.name", "is missing"),
        Problem("object.pattern", "is missing"),
        Problem("object.definition", "is missing"),
        Problem("object.priority", "expected a whole number, got a string"),
    )
    assert problems_of(read_queue, {"arguments": {}}) == (Problem("object.name", "is missing"),)
    assert problems_of(read_exchange, {"name": "x", "arguments": "none"}) == (
        Problem("object.arguments", "expected an object, got a string"),
    )


def test_an_empty_object_lacks_its_required_members():
    assert problems_of(read_exchange, {}) == (Problem("object.name", "is missing"),)


def test_a_value_that_is_no_object_is_one_problem():
    assert problems_of(read_binding, ["x", "q"]) == (
        Problem("object", "expected an object, got an array"),
    )


def test_a_choice_accepts_only_its_words():
    assert problems_of(
        read_binding, {"source": "x", "destination": "q", "destination_type": "queu"}
    ) == (
        Problem(
            "object.destination_type",
            "must be one of queue, exchange, not 'queu' (did you mean 'queue'?)",
        ),
    )
    assert problems_of(
        read_binding, {"source": "x", "destination": "q", "destination_type": 1}
    ) == (Problem("object.destination_type", "expected a string, got a number"),)


def test_members_with_strange_names_are_unknown_members():
    assert problems_of(read_exchange, {"name": "x", 1: 2}) == (
        Problem("object.1", "is not a known member"),
    )
