"""Lint of dead-letter targets that refuse, and of settings without effect."""

from tests.unit.topology.analysis.lint_topologies import (
    BURIED,
    DEAD,
    ORDERS,
    WORK,
    a_queue,
    a_topology,
)
from topology.analysis.lint import lint
from topology.declarations import Binding, Policy
from topology.errors import Problem


def test_a_dead_letter_target_that_refuses_when_full_is_found():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="dead"),
        DEAD,
        a_queue("buried", max_length=5, overflow="reject-publish"),
        Binding("dead", "buried"),
    )

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "its dead letters that find 'buried' full are refused there (reject-publish) and lost",
        ),
    )


def test_one_of_several_refusing_targets_is_named_and_the_rest_counted():
    full = {"max_length": 5, "overflow": "reject-publish"}
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="dead"),
        DEAD,
        *(a_queue(name, **full) for name in ("b", "a", "c")),
        *(Binding("dead", name) for name in ("a", "b", "c")),
    )

    (problem,) = lint(topology)

    assert problem.what.startswith("its dead letters that find 'a' and 2 more full are refused")


def test_a_refusing_queue_that_no_dead_letter_reaches_is_clean():
    refusing = a_queue("limited", max_length=5, overflow="reject-publish")
    topology = a_topology(
        ORDERS,
        WORK,
        Binding("orders", "limited", routing_key="other"),
        a_queue("work", dlx="dead"),
        refusing,
        *BURIED,
    )

    assert lint(topology) == ()


def test_a_setting_by_policy_that_the_queue_type_makes_inert_is_found():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", queue_type="quorum"),
        policies=(Policy("p", "^work$", {"overflow": "reject-publish-dlx"}),),
    )

    assert lint(topology) == (
        Problem("queue 'work'", "overflow reject-publish-dlx acts as drop-head on a quorum queue"),
    )


def test_a_refusing_target_is_clean_at_least_once_or_without_a_limit():
    at_least_once = a_queue(
        "work",
        queue_type="quorum",
        dlx="dead",
        overflow="reject-publish",
        dead_letter_strategy="at-least-once",
    )
    limited = a_queue("buried", max_length=5, overflow="reject-publish")
    unlimited = a_queue("buried", overflow="reject-publish")
    bound = (ORDERS, WORK, DEAD, Binding("dead", "buried"))

    assert lint(a_topology(*bound, at_least_once, limited)) == ()
    assert lint(a_topology(*bound, a_queue("work", dlx="dead"), unlimited)) == ()


def test_at_least_once_that_becomes_at_most_once_is_found():
    work = a_queue("work", queue_type="quorum", dlx="dead", dead_letter_strategy="at-least-once")

    assert lint(a_topology(ORDERS, WORK, work, *BURIED)) == (
        Problem(
            "queue 'work'",
            "dead-letter-strategy at-least-once needs a dead-letter exchange and overflow "
            "reject-publish: dead letters are sent at most once",
        ),
    )


def test_reject_publish_dlx_on_a_quorum_queue_is_found():
    work = a_queue("work", queue_type="quorum", dlx="dead", overflow="reject-publish-dlx")

    assert lint(a_topology(ORDERS, WORK, work, *BURIED)) == (
        Problem("queue 'work'", "overflow reject-publish-dlx acts as drop-head on a quorum queue"),
    )


def test_every_queue_that_sends_dead_letters_to_a_refusing_queue_is_found():
    topology = a_topology(
        ORDERS,
        WORK,
        Binding("orders", "more", routing_key="more"),
        a_queue("work", dlx="dead"),
        a_queue("more", dlx="dead"),
        DEAD,
        a_queue("buried", max_length=5, overflow="reject-publish"),
        Binding("dead", "buried"),
    )

    assert [problem.where for problem in lint(topology)] == ["queue 'more'", "queue 'work'"]
