"""Lint: declarations that RabbitMQ accepts and that are probably mistakes."""

import pytest

from tests.unit.topology.analysis.lint_topologies import (
    BURIED,
    DEAD,
    ORDERS,
    WORK,
    a_queue,
    a_topology,
)
from topology.analysis.lint import lint
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.errors import Problem


def test_a_retry_pattern_through_a_rejection_is_clean():
    topology = a_topology(
        ORDERS,
        WORK,
        Exchange("retry", "fanout"),
        Binding("retry", "retry"),
        a_queue("work", dlx="retry"),
        a_queue("retry", ttl_ms=5000, dlx="orders"),
    )

    assert lint(topology) == ()


def test_an_empty_vhost_is_clean():
    assert lint(Definitions()) == ()


def test_a_missing_dead_letter_exchange_is_found_with_a_suggestion():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="daed"), *BURIED)

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "its dead-letter exchange 'daed' does not exist (did you mean 'dead'?): "
            "dead letters are lost",
        ),
    )


def test_a_dead_letter_exchange_without_bindings_is_found_once():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="dead"), DEAD)

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "nothing is bound to its dead-letter exchange 'dead': dead letters are lost",
        ),
    )


def test_a_dead_letter_exchange_with_a_bound_alternate_is_clean():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="keyed"),
        Exchange("keyed", "direct", arguments={"alternate-exchange": "dead"}),
        *BURIED,
    )

    assert lint(topology) == ()


def test_a_dead_letter_routing_key_without_a_binding_is_found():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="keyed", key="faild"),
        Exchange("keyed", "direct"),
        Queue("buried"),
        Binding("keyed", "buried", routing_key="failed"),
    )

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "its dead letters with routing key 'faild' are lost: "
            "exchange 'keyed' has no binding for it",
        ),
    )


def test_dead_letters_that_keep_a_key_unknown_to_the_dead_letter_exchange_are_found():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="keyed"),
        Exchange("keyed", "direct"),
        Queue("buried"),
        Binding("keyed", "buried", routing_key="failed"),
    )

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "dead letters that arrived with routing key 'new' are lost: "
            "exchange 'keyed' has no binding for it",
        ),
    )


def test_a_dead_letter_routing_key_without_a_queue_is_found():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="", key="burried"), *BURIED)

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "its dead letters with routing key 'burried' are lost: no queue has that name",
        ),
    )


def test_the_default_exchange_without_a_key_returns_only_what_was_published_by_name():
    by_name = Binding("orders", "work", routing_key="work")

    assert lint(a_topology(ORDERS, by_name, a_queue("work", dlx=""))) == ()
    assert lint(a_topology(ORDERS, WORK, a_queue("work", dlx=""))) == (
        Problem(
            "queue 'work'",
            "dead letters that arrived with routing key 'new' are lost: no queue has that name",
        ),
    )


def test_a_dead_letter_routing_key_without_an_exchange_is_found():
    topology = a_topology(ORDERS, WORK, a_queue("work", key="failed"))

    assert lint(topology) == (
        Problem("queue 'work'", "has dead-letter routing key 'failed' but no dead-letter exchange"),
    )


@pytest.mark.parametrize(
    ("alternate", "others", "what"),
    [
        (
            "unruted",
            (Exchange("unrouted", "fanout"), Queue("lost"), Binding("unrouted", "lost")),
            (
                "its alternate exchange 'unruted' does not exist (did you mean 'unrouted'?): "
                "unrouted messages are lost"
            ),
        ),
        (
            "unrouted",
            (Exchange("unrouted", "fanout"),),
            "nothing is bound to its alternate exchange 'unrouted': unrouted messages are lost",
        ),
        (
            "",
            (),
            "its alternate exchange is the default exchange, which takes nothing: "
            "unrouted messages are lost",
        ),
        ("orders", (), "is its own alternate exchange, which has no effect"),
    ],
)
def test_an_alternate_exchange_without_bindings_is_found(alternate, others, what):
    orders = Exchange("orders", "direct", arguments={"alternate-exchange": alternate})

    problems = lint(a_topology(orders, WORK, Queue("work"), *others))

    assert problems == (Problem("exchange 'orders'", what),)


def test_a_chain_of_alternate_exchanges_that_ends_in_a_queue_is_clean():
    topology = a_topology(
        Exchange("orders", "direct", arguments={"alternate-exchange": "second"}),
        WORK,
        Queue("work"),
        Exchange("second", "fanout", arguments={"alternate-exchange": "third"}),
        Exchange("third", "fanout"),
        Queue("lost"),
        Binding("third", "lost"),
    )

    assert lint(topology) == ()


def test_an_exchange_that_leads_to_no_queue_is_found():
    topology = a_topology(
        ORDERS,
        WORK,
        Queue("work"),
        Exchange("idle", "topic"),
        Exchange("forwarding", "topic"),
        Binding("forwarding", "idle", "exchange", "#"),
    )

    what = "leads to no queue: messages published to it are lost"
    assert lint(topology) == (
        Problem("exchange 'forwarding'", what),
        Problem("exchange 'idle'", what),
    )


def test_a_queue_without_bindings_is_found():
    assert lint(a_topology(Queue("lonely"))) == (
        Problem(
            "queue 'lonely'",
            "is unreachable: no binding, dead letter or alternate exchange leads to it, only a "
            "publish to the default exchange with its name",
        ),
    )


def test_a_queue_behind_an_unbound_internal_exchange_is_found():
    topology = a_topology(
        Exchange("inner", "fanout", internal=True), Queue("work"), Binding("inner", "work")
    )

    (problem,) = lint(topology)

    assert problem.where == "queue 'work'"
    assert problem.what.startswith("is unreachable")


def test_a_queue_that_gets_dead_letters_by_name_is_clean():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="", key="buried"), Queue("buried"))

    assert lint(topology) == ()


def test_a_cycle_of_automatic_deaths_is_found_with_its_reasons():
    topology = a_topology(
        ORDERS,
        WORK,
        Exchange("retry", "fanout"),
        Binding("retry", "retry"),
        a_queue("work", ttl_ms=60_000, max_length=10, dlx="retry"),
        a_queue("retry", ttl_ms=5000, dlx="orders"),
    )

    assert lint(topology) == (
        Problem(
            "queue 'retry'",
            "automatic dead-letter cycle: "
            "retry -(expired)-> work -(expired or maxlen)-> retry; "
            "messages that return unrejected are dropped",
        ),
    )


def test_a_quorum_queue_may_die_by_its_default_delivery_limit_on_4_0_only():
    topology = a_topology(
        ORDERS,
        WORK,
        Exchange("retry", "fanout"),
        Binding("retry", "retry"),
        a_queue("work", queue_type="quorum", dlx="retry"),
        a_queue("retry", ttl_ms=5000, dlx="orders"),
    )

    (on_4_0,) = lint(topology)

    assert "work -(delivery_limit)-> retry" in on_4_0.what
    assert lint(topology, "3.10") == ()
