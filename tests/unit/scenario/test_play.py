"""Outcomes that the recordings do not cover."""

import json
from typing import Any

import pytest

from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import on_single_lanes, parse_scenario
from streaming.scenario.play import Player, play

QUEUE = {"queues": [{"name": "q"}]}


def outcome_of(*steps, definitions=QUEUE, end_ms=1000, compat="4.0"):
    """The outcome of steps, 10 ms apart by default."""
    timed = [{"at_ms": 10 * index, **step} for index, step in enumerate(steps)]
    document = {"definitions": definitions, "steps": timed, "end_ms": end_ms}
    return play(parse_scenario(json.dumps(document), "scenario"), compat)


def publish(body, **fields):
    """A publish into the queue."""
    return {"op": "publish", "routing_key": "q", "body": body, **fields}


def test_an_outcome_has_every_member_that_recordings_have():
    outcome = outcome_of(publish("a"), {"op": "depth", "queue": "q"}, {"op": "sleep"})

    message: dict[str, object] = {
        "body": "a",
        "exchange": "",
        "routing_key": "q",
        "properties": {},
        "headers": None,
        "redelivered": False,
    }
    assert outcome == {
        "steps": [
            {"step": 0, "op": "publish", "confirm": "ack"},
            {"step": 1, "op": "depth", "ready": 1},
        ],
        "depths": {"q": 1},
        "unacked": {},
        "queues": {"q": [message]},
    }


def test_header_values_are_shown_as_recordings_show_them():
    headers = {
        "bytes": {"$bytes": "AP8="},
        "decimal": {"$decimal": "1.50"},
        "double": 1.0,
        "integer": 1,
        "nested": [{"when": {"$timestamp": 5}}, None],
        "time": {"$timestamp": 5},
        "void": None,
    }

    outcome = outcome_of(publish("a", properties={"headers": headers, "timestamp": 7}))

    (message,) = outcome["queues"]["q"]
    assert message["properties"] == {"timestamp": 7}
    assert json.dumps(message["headers"]) == json.dumps(
        {
            "bytes": "\x00\\xff",
            "decimal": "1.50",
            "double": 1.0,
            "integer": 1,
            "nested": [{"when": "<timestamp>"}, None],
            "time": "<timestamp>",
            "void": None,
        }
    )


def test_no_headers_are_null_and_empty_headers_are_empty():
    outcome = outcome_of(publish("a"), publish("b", properties={"headers": {}}))

    assert [message["headers"] for message in outcome["queues"]["q"]] == [None, {}]


def test_properties_come_in_the_order_of_the_protocol():
    given = {"app_id": "a", "expiration": "5000", "content_type": "t", "priority": 1}

    outcome = outcome_of(publish("a", properties=given))

    assert list(outcome["queues"]["q"][0]["properties"].items()) == [
        ("content_type", "t"),
        ("priority", 1),
        ("expiration", "5000"),
        ("app_id", "a"),
    ]


def test_a_get_without_a_label_is_called_g():
    outcome = outcome_of(
        publish("a"), {"op": "get", "queue": "q"}, {"op": "ack", "refs": ["g/0", "g/1"]}
    )

    assert outcome["steps"][1]["messages"][0]["ref"] == "g/0"
    assert outcome["steps"][2] == {"step": 2, "op": "ack", "missing": ["g/1"]}


def test_a_scenario_may_use_the_names_of_the_final_observation():
    get = {"op": "get", "queue": "q", "as": "drain", "channel": "drain"}

    outcome = outcome_of(publish("a"), publish("b"), get)

    assert outcome["steps"][2]["messages"][0]["ref"] == "drain/0"
    assert outcome["unacked"] == {"q": [{"ref": "drain/0", "body": "a"}]}
    assert [sorted(message) for message in outcome["queues"]["q"]] == [
        ["body", "exchange", "headers", "properties", "redelivered", "routing_key"]
    ]


def test_a_refused_step_is_an_error_and_the_next_step_runs():
    outcome = outcome_of({"op": "get", "queue": "nosuch"}, publish("a", exchange="nosuch"))

    assert outcome["steps"] == [
        {
            "step": 0,
            "op": "get",
            "error": {
                "code": 404,
                "text": "NOT_FOUND - no queue 'nosuch' in vhost '<vhost>'",
            },
        },
        {
            "step": 1,
            "op": "publish",
            "error": {
                "code": 404,
                "text": "NOT_FOUND - no exchange 'nosuch' in vhost '<vhost>'",
            },
        },
    ]


@pytest.mark.parametrize(
    ("definitions", "code", "text"),
    [
        (
            {"bindings": [{"source": "nosuch", "destination": "q"}], **QUEUE},
            404,
            "NOT_FOUND - no exchange 'nosuch' in vhost '<vhost>'",
        ),
        (
            {"queues": [{"name": "q", "arguments": {"x-overflow": "explode"}}]},
            406,
            "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q' in vhost '<vhost>': "
            "invalid_overflow",
        ),
        (
            {"queues": [{"name": "q"}, {"name": "q", "durable": False}]},
            406,
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '<vhost>': "
            "received 'false' but current is 'true'",
        ),
        (
            {"policies": [{"name": "p", "pattern": "(a)\\1", "definition": {"expires": 5}}]},
            406,
            None,
        ),
    ],
)
def test_a_refused_topology_is_the_whole_outcome(definitions, code, text):
    outcome = outcome_of(publish("a"), definitions=definitions)

    assert list(outcome) == ["setup_error"]
    assert outcome["setup_error"]["code"] == code
    assert text in {None, outcome["setup_error"]["text"]}


def test_the_result_of_a_publish_has_its_returned_message():
    outcome = outcome_of(
        publish("a", routing_key="nosuch", mandatory=True, properties={"type": "t"})
    )

    assert outcome["steps"] == [
        {
            "step": 0,
            "op": "publish",
            "confirm": "ack",
            "returned": {
                "reply_code": 312,
                "reply_text": "NO_ROUTE",
                "exchange": "",
                "routing_key": "nosuch",
                "message": {
                    "body": "a",
                    "exchange": "",
                    "routing_key": "nosuch",
                    "properties": {"type": "t"},
                    "headers": None,
                },
            },
        }
    ]


def test_queues_declared_by_steps_are_observed():
    outcome = outcome_of(
        {"op": "declare_queue", "queue": {"name": "later"}},
        {"op": "import_definitions", "definitions": {"queues": [{"name": "imported"}]}},
        {"op": "delete_queue", "queue": "later"},
    )

    assert outcome["queues"] == {"imported": [], "later": None, "q": []}


def test_consumers_show_their_deliveries():
    outcome = outcome_of(
        {"op": "consume", "queue": "q", "as": "c", "prefetch": 1},
        publish("a"),
        publish("b"),
        {"op": "ack", "refs": ["c/0"]},
    )

    assert [(message["body"], message["ref"]) for message in outcome["consumers"]["c"]] == [
        ("a", "c/0"),
        ("b", "c/1"),
    ]
    assert outcome["unacked"] == {"q": [{"ref": "c/1", "body": "b"}]}


def test_the_final_observation_continues_after_a_queue_that_fills_another():
    """A head that is taken exposes the expired message behind it: R-TTL-4."""
    definitions = {
        "queues": [
            {
                "name": "z",
                "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"},
            },
            {"name": "a"},
        ]
    }

    outcome = outcome_of(
        publish("head", routing_key="z"),
        publish("behind", routing_key="z", properties={"expiration": "50"}),
        definitions=definitions,
    )

    assert outcome["depths"] == {"a": 0, "z": 2}
    assert [message["body"] for message in outcome["queues"]["z"]] == ["head"]
    assert [message["body"] for message in outcome["second_pass"]["a"]] == ["behind"]


def test_a_watcher_is_called_at_the_end_of_every_phase():
    class Diary:
        def __init__(self):
            self.entries = []

        def saw(self, phase, result, step):
            self.entries.append((phase, result, step))

    document = {
        "definitions": QUEUE,
        "steps": [{"at_ms": 5, "op": "depth", "queue": "q"}],
        "end_ms": 9,
    }
    diary = Diary()

    Player(parse_scenario(json.dumps(document), "scenario"), CoreBroker("4.0"), diary).play()

    assert diary.entries == [
        ("declared", {}, None),
        ("waited", {}, None),
        ("stepped", {"ready": 0}, 0),
        ("waited", {}, None),
        ("ended", {}, None),
        ("emptied", {}, None),
    ]


@pytest.mark.parametrize("op", ["ack", "reject"])
def test_a_redrive_with_a_canary_ends_on_several_lanes_as_on_one(op):
    target = ["w", "", ["w"]]
    steps: list[dict[str, Any]] = [
        *({"op": "publish", "routing_key": "q", "body": f"m{number}"} for number in range(3)),
        {
            "op": "redrive",
            "id": "r",
            "reason": "fixed",
            "seal": "s",
            "total": 3,
            "letters": [[0, copy_id, "q", target] for copy_id in (3, 4, 5)],
            "options": {"canary": 1},
        },
        {"op": "get", "queue": "w", "as": "g"},
        {"op": op, "refs": ["g/0"]},
        {"op": "control_redrive", "id": "r", "action": "status", "reason": ""},
    ]
    document = {
        "definitions": {"queues": [{"name": "q"}, {"name": "w"}]},
        "steps": [{"at_ms": 2_000 * index, **step} for index, step in enumerate(steps)],
        "end_ms": 20_000,
    }
    scenario = parse_scenario(json.dumps(document), "scenario")

    one, four = play(scenario, "4.0"), play(on_single_lanes(scenario), "4.0", lanes=4)

    assert one["depths"] == {"q": 0, "w": 2} if op == "ack" else {"q": 2, "w": 0}
    assert four == one
