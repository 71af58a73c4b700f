"""Comparing an outcome with a recording, and with expectations."""

from typing import Any

import pytest

from streaming.scenario.compare import Comparison, Difference, compare, compare_outcome
from streaming.scenario.document import Scenario
from streaming.scenario.expectations import Expected
from streaming.scenario.steps import Sleep, Step
from topology.declarations import Definitions

OUTCOME: dict[str, Any] = {
    "steps": [{"step": 1, "op": "get", "messages": [{"body": "a", "ref": "g/0"}]}],
    "depths": {"q": 1, "gone": None},
    "unacked": {},
    "queues": {
        "q": [{"body": "b", "headers": {"x-death": [{"reason": "expired", "queue": "w"}], "n": 1}}],
        "gone": None,
    },
}
STEPS = (Step(0, "sleep", Sleep()), Step(20, "get", Sleep()))


def scenario(outcomes=None, expect=None):
    """A scenario with these members about its outcome."""
    return Scenario("s", "", Definitions(), STEPS, 30, outcomes or {}, expect)


def changed(path, value):
    """The outcome with another value at a path."""

    def replaced(document, keys):
        if not keys:
            return value
        key, *rest = keys
        copy = dict(document) if isinstance(document, dict) else list(document)
        copy[key] = replaced(document[key] if rest else None, rest)
        return copy

    return replaced(OUTCOME, path)


def recorded(*lines):
    """A single difference from the recording."""
    return [Difference("recorded", *lines)]


def test_equal_outcomes_have_no_differences():
    assert compare(OUTCOME, changed([], OUTCOME)) == []


@pytest.mark.parametrize(
    ("path", "value", "difference"),
    [
        (["depths", "q"], 2, ("depths.q", "2", "1")),
        (["depths", "q"], None, ("depths.q", "None", "1")),
        (["depths", "more"], 1, ("depths.more", "1", "nothing")),
        (["queues", "gone"], [], ("queues.gone", "nothing", "None")),
        (["queues", "q"], [], ("queues.q", "nothing", "'b'")),
        (["queues", "q"], [{"body": "x"}, {"body": "b"}], ("queues.q", "'x', 'b'", "'b'")),
        (["queues", "q", 0, "headers", "n"], True, ("queues.q[0].headers.n", "True", "1")),
        (["queues", "q", 0, "headers", "n"], 1.0, ("queues.q[0].headers.n", "1.0", "1")),
        (
            ["queues", "q", 0, "headers", "x-death"],
            [{"reason": "maxlen", "queue": "w"}, {"reason": "expired", "queue": "w"}],
            ("queues.q[0].headers.x-death", "maxlen in 'w', expired in 'w'", "expired in 'w'"),
        ),
        (["steps", 0, "messages"], [], ("steps[1].messages", "nothing", "'a' as g/0")),
        (["steps", 0, "op"], "x" * 300, ("steps[1].op", "'" + "x" * 199 + "...", "'get'")),
        (["consumers"], {"c": []}, ("consumers", "{'c': []}", "nothing")),
        (["steps"], 3, ("steps", "3", repr(OUTCOME["steps"][0]))),
    ],
)
def test_a_difference_names_its_place_and_both_sides(path, value, difference):
    assert compare(changed(path, value), OUTCOME) == recorded(*difference)


def test_results_of_steps_are_compared_by_step_number():
    extra = {"step": 0, "op": "depth", "ready": 5}

    assert compare({**OUTCOME, "steps": [extra, *OUTCOME["steps"]]}, OUTCOME) == recorded(
        "steps[0]", "{'step': 0, 'op': 'depth', 'ready': 5}", "nothing"
    )


def test_other_lists_are_compared_as_a_whole():
    assert compare({"a": [1, "x"]}, {"a": [1, "y"]}) == recorded("a", "1, 'x'", "1, 'y'")


def test_error_codes_are_compared_and_error_texts_are_not():
    def failed(code, text):
        return {"setup_error": {"code": code, "text": text}}

    assert compare(failed(406, "so"), failed(406, "or so")) == []
    assert compare(failed(406, "so"), failed(404, "so")) == recorded(
        "setup_error.code", "406", "404"
    )


def test_without_a_recording_or_expectations_nothing_is_compared():
    assert compare_outcome(scenario({"3.10.8": OUTCOME}), OUTCOME, "4.0") == Comparison((), ())


def test_the_recording_of_the_version_is_compared_with_described_steps():
    other = changed(["steps", 0, "messages"], [])
    both = scenario({"4.0.5": OUTCOME, "3.10.8": other})

    assert compare_outcome(both, OUTCOME, "4.0") == Comparison(
        ("the record of RabbitMQ 4.0.5",), ()
    )
    assert compare_outcome(both, OUTCOME, "3.10") == Comparison(
        ("the record of RabbitMQ 3.10.8",),
        (Difference("recorded", "steps[1] get at 20 ms.messages", "nothing", "'a' as g/0"),),
    )


@pytest.mark.parametrize(
    "expect",
    [
        {},
        {"q": [Expected("b", None)]},
        {"q": [Expected(None, ["expired"])]},
        {"q": [Expected("b", ["expired"])], "gone": None},
    ],
)
def test_a_met_expectation_is_no_difference(expect):
    assert compare_outcome(scenario(None, expect), OUTCOME, "4.0") == Comparison(
        ("what it expects",), ()
    )


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ({"q": []}, ("queues.q", "nothing", "'b' dead: expired")),
        ({"q": None}, ("queues.q", "no such queue", "'b' dead: expired")),
        ({"gone": []}, ("queues.gone", "nothing", "no such queue")),
        ({"q": [Expected("c", None)]}, ("queues.q", "'c'", "'b' dead: expired")),
        ({"q": [Expected("b", [])]}, ("queues.q", "'b' never dead", "'b' dead: expired")),
        (
            {"q": [Expected(None, ["expired", "maxlen"])]},
            ("queues.q", "any message dead: expired, maxlen", "'b' dead: expired"),
        ),
        (
            {"gnoe": None},
            ("queues.gnoe", "no such queue", "was never declared (did you mean 'gone'?)"),
        ),
    ],
)
def test_an_unmet_expectation_is_a_difference(expect, difference):
    assert compare_outcome(scenario(None, expect), OUTCOME, "4.0") == Comparison(
        ("what it expects",), (Difference("expected", *difference),)
    )


def test_a_refused_topology_meets_no_expectation():
    outcome = {"setup_error": {"code": 404, "text": "NOT_FOUND - no queue"}}

    assert compare_outcome(scenario(None, {"q": []}), outcome, "4.0").differences == (
        Difference("expected", "definitions", "accepted", "404 NOT_FOUND - no queue"),
    )


def test_record_and_expectations_are_both_compared():
    verdict = compare_outcome(scenario({"4.0.5": OUTCOME}, {"q": []}), OUTCOME, "4.0")

    assert verdict.against == ("the record of RabbitMQ 4.0.5", "what it expects")
    assert [difference.against for difference in verdict.differences] == ["expected"]
