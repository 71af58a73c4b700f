"""Expected contents of queues in a scenario."""

import pytest

from streaming.scenario.expectations import Expected, read_expectations, reasons_of
from topology.definitions.json_object import Report
from topology.errors import Problem


def read(document):
    """The expectations, and the problems."""
    report = Report()
    return read_expectations(document, "expect", report), report.problems


def test_messages_are_bodies_or_bodies_with_reasons():
    document = {
        "q": ["a", {"body": "b"}, {"body": "c", "reasons": []}, {"reasons": ["expired", "maxlen"]}],
        "one": [{"reasons": "rejected"}],
        "empty": [],
        "gone": None,
    }

    assert read(document) == (
        {
            "q": [
                Expected("a", None),
                Expected("b", None),
                Expected("c", []),
                Expected(None, ["expired", "maxlen"]),
            ],
            "one": [Expected(None, ["rejected"])],
            "empty": [],
            "gone": None,
        },
        [],
    )


def test_bodies_and_reasons_may_be_parallel_arrays():
    document = {
        "both": {"bodies": ["a", None], "reasons": ["expired", ["maxlen", "rejected"]]},
        "bodies": {"bodies": ["a"]},
        "reasons": {"reasons": [[], None]},
    }

    assert read(document) == (
        {
            "both": [Expected("a", ["expired"]), Expected(None, ["maxlen", "rejected"])],
            "bodies": [Expected("a", None)],
            "reasons": [Expected(None, []), Expected(None, None)],
        },
        [],
    )


def test_a_scenario_without_expectations_has_none():
    assert read(None) == (None, [])


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ([], [Problem("expect", "expected an object, got an array")]),
        ({"q": 3}, [Problem("expect.q", "expected an array or null, got a number")]),
        ({"q": [3]}, [Problem("expect.q[0]", "expected an object, got a number")]),
        ({"q": [{"body": 3}]}, [Problem("expect.q[0].body", "expected a string, got a number")]),
        (
            {"q": [{"reasons": [1]}]},
            [Problem("expect.q[0].reasons", "expected an array of strings")],
        ),
        (
            {"q": [{"reason": ["expired"]}]},
            [Problem("expect.q[0].reason", "is not a known member (did you mean 'reasons'?)")],
        ),
        (
            {"q": {"bodies": ["a"], "reasons": []}},
            [Problem("expect.q", "needs bodies, or reasons, or both in equal number")],
        ),
        ({"q": {}}, [Problem("expect.q", "needs bodies, or reasons, or both in equal number")]),
        ({"q": {"bodies": "a"}}, [Problem("expect.q.bodies", "expected an array, got a string")]),
        (
            {"q": {"bodies": [1], "odd": 1}},
            [
                Problem("expect.q.odd", "is not a known member"),
                Problem("expect.q.bodies[0]", "expected a string, got a number"),
            ],
        ),
        (
            {"q": {"reasons": [3]}},
            [Problem("expect.q.reasons[0]", "expected an array of strings")],
        ),
    ],
)
def test_anything_else_is_a_problem(document, problems):
    assert read(document)[1] == problems


def test_the_reasons_of_a_message_are_those_of_x_death_newest_first():
    deaths = [{"reason": "expired"}, {"reason": "rejected"}]

    assert reasons_of({"headers": {"x-death": deaths}}) == ["expired", "rejected"]
    assert reasons_of({"headers": {}}) == []
    assert reasons_of({"headers": None}) == []


def test_an_invalid_x_death_of_a_client_is_harmless():
    assert reasons_of({"headers": {"x-death": "no"}}) == []
    assert reasons_of({"headers": {"x-death": [3, {}, {"reason": 5}]}}) == ["None", "5"]
