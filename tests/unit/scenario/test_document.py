"""Reading scenario files."""

import json

import pytest

from streaming.scenario.document import (
    File,
    MalformedScenarioError,
    Scenario,
    parse_file,
    parse_scenario,
)
from streaming.scenario.expectations import Expected
from streaming.scenario.steps import Sleep, Step
from topology.declarations import Definitions, Queue
from topology.errors import Problem

MINIMAL = {"steps": [], "end_ms": 0}


def problems_of(document):
    """Path and text of every problem of a file."""
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    file = parse_file(text, "file")
    return [(problem.where, problem.what) for problem in file.problems]


def test_a_scenario_is_read():
    document = {
        "id": "one",
        "title": "a title",
        "rules": ["R-TTL-1"],
        "version_note": "none",
        "difference": "none",
        "seed": 4,
        "definitions": {"queues": [{"name": "q"}]},
        "steps": [{"at_ms": 5, "op": "sleep"}],
        "end_ms": 10,
        "outcomes": {"4.0.5": {"steps": []}},
        "expect": {"q": ["a"]},
    }

    assert parse_scenario(json.dumps(document), "file") == Scenario(
        id="one",
        title="a title",
        definitions=Definitions(queues=(Queue("q"),)),
        steps=(Step(5, "sleep", Sleep()),),
        end_ms=10,
        outcomes={"4.0.5": {"steps": []}},
        expect={"q": [Expected("a", None)]},
    )


def test_a_scenario_without_an_id_has_the_name_of_its_file():
    assert parse_scenario(json.dumps(MINIMAL), "file") == Scenario(
        "file", "", Definitions(), (), 0, {}, None
    )


def test_an_unknown_member_is_skipped_and_reported():
    scenario = parse_scenario(json.dumps({**MINIMAL, "expct": {}, "mine": 1}), "file")

    assert scenario.skipped == (
        Problem("expct", "is not a known member (did you mean 'expect'?)"),
        Problem("mine", "is not a known member"),
    )


def test_a_file_may_hold_several_scenarios_and_some_may_be_malformed():
    document = [MINIMAL, 3, {**MINIMAL, "end_ms": -1}, {**MINIMAL, "id": "last"}]

    file = parse_file(json.dumps(document), "file")

    assert [scenario.id for scenario in file.scenarios] == ["file[0]", "last"]
    assert file.problems == (
        Problem("[1]", "expected an object, got a number"),
        Problem("[2].end_ms", "must be from 0 to 315360000000, not -1"),
    )


def test_an_invalid_value_affects_only_its_own_scenario():
    text = f'[{json.dumps(MINIMAL)}, {{"steps": [], "end_ms": NaN}}, {{"a": 1, "a": 2}}]'

    file = parse_file(text, "file")

    assert [scenario.id for scenario in file.scenarios] == ["file[0]"]
    assert file.problems == (
        Problem("document", "an object names its member 'a' twice"),
        Problem("[1].end_ms", "is not a finite number"),
        Problem("[2].steps", "is missing"),
        Problem("[2].end_ms", "is missing"),
    )


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ("", [("document", "is not JSON: Expecting value: line 1 column 1 (char 0)")]),
        ("null", [("document", "expected an object, got null")]),
        ("[]", [("document", "has no scenarios")]),
        ('"text"', [("document", "expected an object, got a string")]),
        ({}, [("steps", "is missing"), ("end_ms", "is missing")]),
        (
            {**MINIMAL, "steps": [{"at_ms": 5, "op": "sleep"}], "end_ms": 4},
            [("end_ms", "is before the last step, at 5")],
        ),
        (
            {**MINIMAL, "end_ms": 10**12},
            [("end_ms", f"must be from 0 to 315360000000, not {10**12}")],
        ),
        (
            {"id": 1, "title": [], "definitions": 1, "steps": {}, "end_ms": "1", "expect": 1},
            [
                ("id", "expected a string, got a number"),
                ("title", "expected a string, got an array"),
                ("definitions", "expected an object, got a number"),
                ("steps", "expected an array, got an object"),
                ("end_ms", "expected a whole number, got a string"),
                ("expect", "expected an object, got a number"),
            ],
        ),
        ({**MINIMAL, "outcomes": []}, [("outcomes", "expected an object, got an array")]),
        (
            {**MINIMAL, "outcomes": {"4.0.5": []}},
            [("outcomes.4.0.5", "expected an object, got an array")],
        ),
    ],
)
def test_every_problem_of_a_malformed_file_is_listed(document, problems):
    assert problems_of(document) == problems


def test_parsing_one_malformed_scenario_raises_its_problems():
    with pytest.raises(MalformedScenarioError) as raised:
        parse_scenario('{"steps": 1}', "file")

    assert raised.value.problems == (
        Problem("steps", "expected an array, got a number"),
        Problem("end_ms", "is missing"),
    )
    assert str(raised.value) == "steps: expected an array, got a number\nend_ms: is missing"


def test_parsing_one_scenario_refuses_several():
    with pytest.raises(MalformedScenarioError, match="document: has several scenarios"):
        parse_scenario(json.dumps([MINIMAL, MINIMAL]), "file")


def test_an_empty_file_of_problems_has_no_scenarios():
    assert parse_file(b"\xff", "file") == File(
        (), (Problem("document", "is not UTF-8: byte 0xff at position 0"),)
    )
