"""The refs that a settlement misses, in the recorder's words."""

import json
from typing import Any

import pytest

from streaming.scenario.document import parse_scenario
from streaming.scenario.play import play

CANCEL = {"op": "cancel", "as": "k"}


def missed_after(*steps: dict[str, Any], settle: dict[str, Any] | None = None) -> object:
    """The missing refs of an ack of `k/0` and `k/1` of two auto-delete queues, after some steps."""
    consume: dict[str, Any] = {"op": "consume", "as": "k", "channel": "c"}
    document = {
        "id": "s",
        "definitions": {
            "queues": [
                {"name": "gone", "auto_delete": True},
                {"name": "q", "arguments": {"x-max-length": 9}},
            ]
        },
        "steps": [
            {"at_ms": 0, **step}
            for step in (
                {"op": "publish", "exchange": "", "routing_key": "gone", "body": "m"},
                {"op": "publish", "exchange": "", "routing_key": "gone", "body": "n"},
                {**consume, "queue": "gone"},
                *steps,
                {"op": "ack", "refs": ["k/0", "k/1", "k/2"], **(settle or {})},
            )
        ],
        "end_ms": 10,
    }
    outcome = play(parse_scenario(json.dumps(document), "s"))
    last = outcome["steps"][-1]
    return last["missing"] if last["op"] == "ack" else []


def ack(*refs: str, multiple: bool = False) -> dict[str, Any]:
    return {"op": "ack", "refs": refs, "multiple": multiple}


def test_a_delivery_of_an_expired_queue_can_still_be_settled():
    assert missed_after(CANCEL) == ["k/2"]


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ([ack("k/0")], ["k/0", "k/2"]),
        ([ack("k/1", multiple=True)], ["k/0", "k/1", "k/2"]),
        ([{"op": "reject", "refs": ["k/1"]}], ["k/1", "k/2"]),
        ([{"op": "settle", "tag": 2, "channel": "c"}], ["k/1", "k/2"]),
        ([{"op": "settle", "tag": 1, "last": 2, "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "settle", "tag": 2, "multiple": True, "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "settle", "tag": 0, "multiple": True, "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "settle", "tag": 1, "channel": "other"}], ["k/2"]),
        ([{"op": "recover", "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "recover", "channel": "other"}], ["k/2"]),
        ([{"op": "close_channel", "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "get", "queue": "none", "channel": "c"}], ["k/0", "k/1", "k/2"]),
        ([{"op": "get", "queue": "none", "channel": "other"}], ["k/2"]),
    ],
)
def test_a_delivery_settled_by_a_step_is_missing(steps, missing):
    assert missed_after(CANCEL, *steps) == missing


def test_a_delivery_of_a_queue_deleted_by_a_step_is_missing():
    assert missed_after({"op": "delete_queue", "queue": "gone"}) == ["k/0", "k/1", "k/2"]


def test_a_refused_publish_closes_its_channel():
    publish = {"op": "publish", "exchange": "none", "routing_key": "", "body": "", "channel": "c"}

    assert missed_after(CANCEL, publish) == ["k/0", "k/1", "k/2"]


def test_a_refused_check_closes_no_channel():
    steps = [{"op": "publish", "exchange": "none"}]

    assert missed_after(CANCEL, {"op": "check", "steps": steps, "channel": "c"}) == ["k/2"]


def test_a_settlement_on_another_channel_reports_its_deliveries_as_missing():
    assert missed_after(CANCEL, settle={"channel": "other"}) == ["k/0", "k/1", "k/2"]


def test_a_reused_ref_means_the_newer_delivery():
    again = [
        {"op": "publish", "exchange": "", "routing_key": "q", "body": "m"},
        {"op": "get", "queue": "q", "as": "k", "channel": "c"},
        ack("k/0"),
    ]

    assert missed_after(CANCEL, *again) == ["k/0", "k/2"]


def test_the_deliveries_of_a_closed_connection_are_missing():
    steps = [
        {"op": "open_channel", "channel": "d", "connection": "one"},
        {"op": "open_channel", "channel": "other", "connection": "two"},
        {"op": "consume", "as": "k", "channel": "d", "queue": "q"},
        {"op": "publish", "exchange": "", "routing_key": "q", "body": "m"},
    ]
    close = {"op": "close_connection"}

    assert missed_after(CANCEL, *steps, {**close, "connection": "two"}) == ["k/2"]
    assert missed_after(CANCEL, *steps, {**close, "connection": "one"}) == ["k/0", "k/2"]
