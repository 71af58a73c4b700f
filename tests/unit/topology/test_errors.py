"""The errors and their texts."""

import pickle

import pytest

from topology.errors import InvalidTopologyError, Problem, UnsupportedPatternError
from topology.refusals import (
    Refusal,
    access_refused,
    command_invalid,
    not_found,
    precondition_failed,
    resource_locked,
)
from topology.suggestions import (
    MAX_CANDIDATES,
    MAX_HINTS,
    Hints,
    did_you_mean,
    did_you_mean_or_known,
)

PROBLEMS = [Problem("queues[0].name", "is missing"), Problem("document", "is not JSON")]


def test_an_invalid_topology_lists_one_problem_per_line():
    error = InvalidTopologyError(PROBLEMS)

    assert str(error) == "queues[0].name: is missing\ndocument: is not JSON"
    assert error.problems == tuple(PROBLEMS)


def test_errors_survive_pickling():
    invalid = pickle.loads(pickle.dumps(InvalidTopologyError(PROBLEMS)))  # noqa: S301 - pickled by this test
    pattern = pickle.loads(  # noqa: S301 - pickled by this test
        pickle.dumps(UnsupportedPatternError("(", "is open"))
    )

    assert invalid.problems == tuple(PROBLEMS)
    assert str(pattern) == "pattern '(' is open"


def test_refusals_carry_amqps_codes_and_names():
    assert [
        refuse("why")
        for refuse in (
            access_refused,
            not_found,
            resource_locked,
            precondition_failed,
            command_invalid,
        )
    ] == [
        Refusal(403, "ACCESS_REFUSED - why"),
        Refusal(404, "NOT_FOUND - why"),
        Refusal(405, "RESOURCE_LOCKED - why"),
        Refusal(406, "PRECONDITION_FAILED - why"),
        Refusal(503, "COMMAND_INVALID - why"),
    ]


def test_the_most_similar_name_is_suggested():
    assert did_you_mean("order", ["", "invoices", "orders"]) == " (did you mean 'orders'?)"
    assert did_you_mean("order", ["invoices", "o"]) == ""
    assert did_you_mean("order", []) == ""


def test_suggestions_among_many_names_are_cheap():
    many = [f"name-{number:05}" for number in range(MAX_CANDIDATES + 1)]

    assert did_you_mean("name-00000x", many) == " (did you mean 'name-00000'?)"


def test_only_the_first_of_many_unknown_names_get_a_hint():
    hints = Hints({"queue": ["work"], "exchange": ["orders"]})

    assert hints.hint("queue", "wrok") == " (did you mean 'work'?)"
    assert hints.hint("exchange", "wrok") == ""
    for number in range(MAX_HINTS):
        hints.hint("queue", f"unlike {number}")
    assert hints.hint("queue", "wrok") == " (did you mean 'work'?)"
    assert hints.hint("queue", "workk") == ""


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        ((), " (there are none)"),
        (("other",), " (there is 'other')"),
        (("first", "other"), " (there are 'first', 'other')"),
        (("orders", "first"), " (did you mean 'orders'?)"),
        (tuple("abcdef"), " (there are 'a', 'b', 'c', 'd', 'e', ...)"),
    ],
)
def test_without_a_similar_name_the_known_ones_are_listed(known, hint):
    assert did_you_mean_or_known("ordrs", known) == hint
