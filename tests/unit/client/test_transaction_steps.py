"""The commands that check a transaction: complete, few and small."""

import json
from typing import Any

import pytest

from streaming.client.transaction import Steps
from streaming.protocol.command_json import parse_command


def steps_of(steps: Steps, most_bytes: int = 1_000_000) -> list[dict[str, Any]]:
    """All steps of all commands, each of which the broker understands."""
    checks = steps.checks(most_bytes)
    assert all(parse_command(check) for check in checks)
    return [step for check in checks for step in check["steps"]]


def test_equal_publishes_are_checked_once_without_parts_that_are_never_refused():
    steps = Steps()
    for number in range(3):
        steps.publish("x", {"message_id": str(number)}, {"n": number, "CC": ["a"], "BCC": ()})
        steps.publish("y", {"expiration": "5"}, None)
        steps.publish("x", None, {"CC": b"odd"})

    assert steps_of(steps) == [
        {"op": "publish", "exchange": "x"},
        {"op": "publish", "exchange": "y", "expiration": "5"},
        {"op": "publish", "exchange": "x", "headers": {"CC": {"$bytes": "b2Rk"}}},
    ]


def test_successive_settlements_of_a_channel_are_checked_together_in_order():
    steps = Steps()
    steps.settle("c", ["1.0.0"], multiple=False)
    steps.settle("c", ["1.0.1", "1.0.2"], multiple=False)
    steps.settle("c", ["1.0.5"], multiple=True)
    steps.settle("d", ["2.0.0"], multiple=False)
    steps.publish("", None, None)
    steps.settle("d", ["2.0.1"], multiple=False)

    assert [step.get("refs") for step in steps_of(steps)] == [
        ["1.0.0", "1.0.1", "1.0.2"],
        ["1.0.5"],
        ["2.0.0"],
        None,
        ["2.0.1"],
    ]


def test_many_refs_are_split_into_commands_of_the_given_size():
    steps = Steps()
    refs = [f"1.0.{number}" for number in range(1_000)]
    for ref in refs:
        steps.settle("c", [ref], multiple=False)

    checks = steps.checks(4_000)

    assert len(checks) > 3
    assert max(len(json.dumps(check)) for check in checks) < 5_000
    assert [ref for step in steps_of(steps, 4_000) for ref in step["refs"]] == refs


def test_an_empty_transaction_asks_nothing():
    assert Steps().checks(4_000) == []


@pytest.mark.parametrize(
    ("earlier", "later", "may"),
    [
        (("c", ["1.1.0"], False), ("c", ["1.1.1", "1.1.0"], False), True),
        (("c", ["1.1.0"], False), ("c", ["1.1.1"], False), False),
        (("c", ["1.1.0"], False), ("c", ["1.1.1"], True), False),
        (("c", ["1.1.0"], False), ("d", ["1.1.0"], False), False),
        (("c", ["1.1.5"], True), ("c", ["1.1.4"], False), True),
        (("c", ["1.1.5"], True), ("c", ["1.1.6"], True), False),
        (("c", ["1.1.5"], True), ("c", ["1.2.6"], False), True),
        (("c", ["1.1.5", "1.2.0"], True), ("c", ["1.1.6"], False), True),
        (("c", ["1.1.5@3"], True), ("c", ["1.1.6@3"], False), False),
        (("c", ["1.1.5@3"], True), ("c", ["1.1.6@2"], False), True),
        (("c", ["get/0"], False), ("c", ["1.1.0"], False), True),
        (("c", ["1.1.0"], False), ("c", ["get/0"], False), True),
    ],
)
def test_a_transaction_may_settle_what_an_earlier_one_has_settled(earlier, later, may):
    transactions = []
    for channel, refs, multiple in (earlier, later):
        steps = Steps()
        steps.publish("", None, None)
        steps.settle(channel, refs, multiple=multiple)
        transactions.append(steps)

    assert transactions[1].may_settle_what(transactions[0]) is may
    assert not Steps().may_settle_what(transactions[0])
    assert not transactions[1].may_settle_what(Steps())
    assert transactions[0].settles()
    assert not Steps().settles()
