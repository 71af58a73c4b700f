"""Commands with nested members, read from JSON; test_steps.py has the others."""

import pytest

from streaming.protocol.command_json import parse_command
from topology.errors import InvalidTopologyError


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (None, "command.steps: is missing"),
        ({}, "command.steps: expected an array, got an object"),
        ([1], "command.steps[0]: expected an object, got a number"),
        ([{}], "command.steps[0].op: is missing"),
        (
            [{"op": "get"}],
            "command.steps[0].op: must be one of publish, ack, reject, nack, not 'get'",
        ),
        ([{"op": "ack"}], "command.steps[0].refs: is missing"),
        (
            [{"op": "publish", "expiration": 5}],
            "command.steps[0].expiration: expected a string, got a number",
        ),
        (
            [{"op": "publish"}, {"op": "publish", "exchang": "x"}],
            "command.steps[1].exchang: is not a known member (did you mean 'exchange'?)",
        ),
    ],
)
def test_a_check_with_a_wrong_step_is_refused_with_its_place(steps, problem):
    with pytest.raises(InvalidTopologyError) as caught:
        parse_command({"op": "check", "steps": steps})

    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "message", ["1/0", "1/0/42/7", "1/0/x", "1/0/-1", "", f"1/0/{'9' * 19}", "1/0/²"]
)
def test_a_message_id_that_is_not_three_numbers_is_refused_with_its_place(message):
    with pytest.raises(InvalidTopologyError) as caught:
        parse_command({"op": "get", "queue": "q", "message": message})

    [problem] = caught.value.problems
    assert problem.where == "command.message"
    assert "1/0/42" in problem.what
