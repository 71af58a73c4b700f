"""Reading the steps of a scenario."""

import pytest

from streaming.broker import commands
from streaming.protocol.command_json import KINDS
from streaming.scenario.steps import MAX_MS, Publish, Sleep, Step, read_steps
from topology.definitions.json_object import Report
from topology.errors import Problem
from topology.values import Table, Timestamp


def read(*steps):
    """The steps and the problems of an array of them."""
    report = Report()
    return read_steps(list(steps), "steps", report), report.problems


def problems_of(**step):
    """The problems of one step at 0 ms: path inside it, and text."""
    _, problems = read({"at_ms": 0, **step})
    return [(problem.where.removeprefix("steps[0]."), problem.what) for problem in problems]


def test_a_publish_is_read_with_its_properties():
    step = {
        "at_ms": 5,
        "op": "publish",
        "exchange": "x",
        "routing_key": "k",
        "body": "é",
        "properties": {
            "expiration": "100",
            "priority": 3,
            "message_id": None,
            "headers": {"n": None, "t": {"$timestamp": 7}, "f": 1.0},
        },
        "mandatory": True,
        "immediate": True,
        "channel": "c",
        "comment": "why",
    }

    ((only,), problems) = read(step)

    publish = only.action
    assert isinstance(publish, Publish)
    publication = publish.publication
    assert (publication.exchange, publication.routing_key) == ("x", "k")
    assert (publication.expiration, publication.priority) == ("100", 3)
    assert publication.headers is None
    properties = {"expiration": "100", "priority": 3}
    headers: Table = {"n": None, "t": Timestamp(7), "f": 1.0}
    action = Publish(
        publication, properties, headers, "é", mandatory=True, immediate=True, channel="c"
    )
    assert only == Step(5, "publish", action, "why")
    assert problems == []


@pytest.mark.parametrize(
    ("properties", "headers"),
    [(None, None), ({}, None), ({"headers": None}, None), ({"headers": {}}, {})],
)
def test_no_headers_and_empty_headers_differ(properties, headers):
    ((step,), _) = read({"at_ms": 0, "op": "publish", "properties": properties})

    assert isinstance(step.action, Publish)
    assert step.action.headers == headers


def test_commands_have_the_form_of_records_and_times_may_repeat():
    steps, problems = read(
        {"at_ms": 0, "op": "get", "queue": "q"},
        {"at_ms": 0, "op": "ack", "refs": ["g/0"]},
        {"at_ms": MAX_MS, "op": "sleep", "comment": "long"},
    )

    assert steps == (
        Step(0, "get", commands.Get(queue="q", label="g")),
        Step(0, "ack", commands.Ack(refs=("g/0",))),
        Step(MAX_MS, "sleep", Sleep(), "long"),
    )
    assert problems == []


def test_an_unknown_op_is_a_problem_with_a_suggestion():
    assert problems_of(op="publsh") == [("op", "unknown op 'publsh' (did you mean 'publish'?)")]
    assert problems_of(op="slep") == [("op", "unknown op 'slep' (did you mean 'sleep'?)")]
    assert problems_of(op="fly") == [("op", "unknown op 'fly'")]
    assert problems_of() == [("op", "is missing")]
    assert problems_of(op=["publish"]) == [("op", "expected a string, got an array")]


def test_times_are_required_and_must_not_decrease():
    _, problems = read(
        {"op": "sleep"},
        {"at_ms": 7, "op": "sleep"},
        {"at_ms": 5, "op": "sleep"},
        {"at_ms": 6, "op": "sleep"},
        {"at_ms": -1, "op": "sleep"},
        {"at_ms": 8.0, "op": "sleep"},
        {"at_ms": True, "op": "sleep"},
        {"at_ms": MAX_MS + 1, "op": "sleep"},
    )

    assert problems == [
        Problem("steps[0].at_ms", "is missing"),
        Problem("steps[2].at_ms", "is before the previous step, at 7"),
        Problem("steps[3].at_ms", "is before the previous step, at 7"),
        Problem("steps[4].at_ms", f"must be from 0 to {MAX_MS}, not -1"),
        Problem("steps[5].at_ms", "expected a whole number, got a number"),
        Problem("steps[6].at_ms", "expected a whole number, got a boolean"),
        Problem("steps[7].at_ms", f"must be from 0 to {MAX_MS}, not {MAX_MS + 1}"),
    ]


def test_refs_are_an_array_of_strings():
    assert problems_of(op="ack") == [("refs", "is missing")]
    assert problems_of(op="reject", refs="g/0") == [("refs", "expected an array of strings")]
    assert problems_of(op="nack", refs=["g/0", 1]) == [("refs", "expected an array of strings")]


def test_a_misspelt_member_is_a_problem():
    assert problems_of(op="nack", refs=[], requeu=True) == [
        ("requeu", "is not a known member (did you mean 'requeue'?)")
    ]
    assert problems_of(op="publish", mandatry=True) == [
        ("mandatry", "is not a known member (did you mean 'mandatory'?)")
    ]
    assert problems_of(op="sleep", ms=5) == [("ms", "is not a known member")]


def test_an_empty_label_is_refused():
    assert problems_of(op="get", queue="q", **{"as": ""}) == [("as", "must not be empty")]
    assert problems_of(op="consume", queue="q", **{"as": ""}) == [("as", "must not be empty")]


@pytest.mark.parametrize(
    ("properties", "where", "what"),
    [
        ([], "properties", "expected an object, got an array"),
        (
            {"prioriti": 1},
            "properties.prioriti",
            "is not an AMQP property (did you mean 'priority'?)",
        ),
        ({"priority": "1"}, "properties.priority", "expected a whole number, got a string"),
        ({"priority": True}, "properties.priority", "expected a whole number, got a boolean"),
        ({"priority": 256}, "properties.priority", "must be from 0 to 255, not 256"),
        ({"delivery_mode": -1}, "properties.delivery_mode", "must be from 0 to 255, not -1"),
        ({"expiration": 100}, "properties.expiration", "expected a string, got a number"),
        ({"type": "t" * 256}, "properties.type", "has 256 bytes, more than 255"),
        ({"headers": []}, "properties.headers", "expected an object, got an array"),
        ({"headers": {"h": {"$bytes": 1}}}, "properties.headers", "$bytes must hold base64 text"),
    ],
)
def test_a_property_has_its_type(properties, where, what):
    assert problems_of(op="publish", properties=properties) == [(where, what)]


def test_names_and_keys_fit_into_amqp():
    assert problems_of(op="publish", exchange="x" * 256, routing_key="é" * 128) == [
        ("exchange", "has 256 bytes, more than 255"),
        ("routing_key", "has 256 bytes, more than 255"),
    ]


@pytest.mark.parametrize("op", ["publish", *KINDS])
def test_members_of_wrong_types_are_problems_whatever_the_step(op):
    members = ("queue", "exchange", "binding", "policy", "refs", "as", "name", "user", "channel")
    step = dict.fromkeys((*members, "body", "definitions", "lease_ms", "reply_id"), 1.5)

    assert problems_of(op=op, **step) != []


def test_a_value_that_is_no_step_is_a_problem():
    assert read(3, None)[1] == [
        Problem("steps[0]", "expected an object, got a number"),
        Problem("steps[1]", "expected an object, got null"),
    ]
