"""Lint of policies without effect and of competing policies."""

from topology.analysis.lint import lint
from topology.declarations import Definitions, Exchange, Policy, Queue
from topology.errors import Problem
from topology.values import Table

TTL: Table = {"message-ttl": 1000}


def problems_of(*policies, operator_policies=()):
    definitions = Definitions(
        exchanges=(Exchange("orders"),),
        queues=(Queue("work"), Queue("audit", arguments={"x-queue-type": "quorum"})),
        policies=policies,
        operator_policies=operator_policies,
    )
    return tuple(problem for problem in lint(definitions) if "policy" in problem.where)


def test_policies_that_are_in_force_somewhere_are_clean():
    assert problems_of(Policy("a", "^work$", TTL), Policy("b", "", TTL, priority=-1)) == ()


def test_a_policy_that_matches_nothing_is_found():
    assert problems_of(Policy("a", "^wrok$", TTL), Policy("b", "work", TTL, 0, "exchanges")) == (
        Problem("policy 'a'", "its pattern '^wrok$' with apply-to all matches nothing"),
        Problem("policy 'b'", "its pattern 'work' with apply-to exchanges matches nothing"),
    )


def test_a_policy_with_a_key_that_its_only_queue_does_not_support_matches_nothing():
    assert problems_of(Policy("a", "^work$", {"delivery-limit": 3})) == (
        Problem("policy 'a'", "its pattern '^work$' with apply-to all matches nothing"),
    )


def test_a_policy_for_streams_is_ignored():
    assert problems_of(Policy("a", "", {"max-age": "1D"}, 0, "streams")) == ()


def test_a_policy_that_is_outranked_everywhere_is_found():
    assert problems_of(Policy("high", "", TTL, priority=5), Policy("low", "^work$", TTL)) == (
        Problem("policy 'low'", "other policies outrank it wherever it matches"),
    )


def test_policies_of_equal_priority_on_one_object_are_found_once_with_an_example():
    policies = (Policy("b", "", TTL), Policy("a", "", TTL), Policy("low", "^work$", TTL, -1))

    assert problems_of(*policies) == (
        Problem("policy 'b'", "other policies outrank it wherever it matches"),
        Problem("policy 'low'", "other policies outrank it wherever it matches"),
        Problem(
            "policy 'a'",
            "its priority (0) is also that of 'b' on queue 'work': which one applies is undefined",
        ),
    )


def test_equal_priorities_on_different_objects_are_clean():
    assert problems_of(Policy("a", "^work$", TTL), Policy("b", "^audit$", TTL)) == ()


def test_operator_policies_are_compared_with_each_other_only():
    problems = problems_of(
        Policy("a", "^work$", TTL),
        operator_policies=(Policy("a", "^work$", TTL, 0, "queues"), Policy("b", "^x$", TTL)),
    )

    assert problems == (
        Problem("operator policy 'b'", "its pattern '^x$' with apply-to all matches nothing"),
    )
