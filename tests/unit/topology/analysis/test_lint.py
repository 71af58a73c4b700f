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


def test_each_queue_of_a_missing_exchange_is_named():
    topology = a_topology(
        ORDERS, WORK, a_queue("work", dlx="daed"), a_queue("more", dlx="daed"), *BURIED
    )

    problems = [one for one in lint(topology) if one.code == "missing-dead-letter-exchange"]
    assert [one.where for one in problems] == ["queue 'more'", "queue 'work'"]


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
        Problem(
            "queue 'work'",
            "its dead-letter routing key 'failed' has no effect without a dead-letter exchange",
        ),
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
        ("orders", (), "its alternate exchange is itself, which has no effect"),
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

    what = "no binding leads from it to a queue: messages published to it are lost"
    assert lint(topology) == (
        Problem("exchange 'forwarding'", what),
        Problem("exchange 'idle'", what),
    )


def test_a_queue_without_bindings_is_found():
    assert lint(a_topology(Queue("lonely"))) == (
        Problem(
            "queue 'lonely'",
            "no binding, dead letter or alternate exchange leads to it, only a "
            "publish to the default exchange with its name",
        ),
    )


def test_a_queue_behind_an_unbound_internal_exchange_is_found():
    topology = a_topology(
        Exchange("inner", "fanout", internal=True), Queue("work"), Binding("inner", "work")
    )

    (problem,) = lint(topology)

    assert problem.where == "queue 'work'"
    assert problem.what.startswith("no binding, dead letter")


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


DIRECT = Exchange("dead", "direct")
TOPIC = Exchange("orders", "topic")


def lost_key(*items):
    """The words after the arrival of the first lost dead letters; None if none are lost."""
    lost = [each.what for each in lint(a_topology(*items)) if each.code == "unrouted-dead-letters"]
    return lost[0].partition(" arrived ")[2].partition(" are lost")[0] if lost else None


@pytest.mark.parametrize(
    ("binding_key", "dead_key", "lost"),
    [
        ("order.#", "work", "by binding 'order.#' with a routing key such as 'order.x'"),
        ("#", "work", "by binding '#' with a routing key such as 'x'"),
        ("order.*", "order.new", "by binding 'order.*' with a routing key such as 'order.x'"),
        ("order.new", "order.new", None),
        ("order.new", "work", "with routing key 'order.new'"),
    ],
)
def test_a_topic_binding_whose_keys_a_direct_dead_letter_exchange_does_not_take(
    binding_key, dead_key, lost
):
    assert lost == lost_key(
        TOPIC,
        DIRECT,
        a_queue("work", dlx="dead"),
        Queue("buried"),
        Binding("orders", "work", routing_key=binding_key),
        Binding("dead", "buried", routing_key=dead_key),
    )


@pytest.mark.parametrize(
    ("binding_key", "lost"),
    [
        ("#", None),
        ("order.#", None),
        ("order.*", "'order.x.x'"),
        ("*.#", None),
        ("x.#", "'order.x'"),
    ],
)
def test_a_topic_dead_letter_exchange_must_take_every_shape_of_key(binding_key, lost):
    found = lost_key(
        TOPIC,
        Exchange("dead", "topic"),
        a_queue("work", dlx="dead"),
        Queue("buried"),
        Binding("orders", "work", routing_key="order.#"),
        Binding("dead", "buried", routing_key=binding_key),
    )

    assert (found is None) == (lost is None)
    assert lost is None or found.endswith(lost) or "'order" in found


def test_a_retry_exchange_has_the_keys_of_the_queue_that_feeds_it():
    retried = (
        TOPIC,
        Exchange("retry", "topic"),
        a_queue("work", dlx="retry"),
        a_queue("wait", ttl_ms=1, dlx="orders"),
        Binding("orders", "work", routing_key="order.*"),
        Binding("retry", "wait", routing_key="#"),
    )

    assert lost_key(*retried) is None
    assert lost_key(*retried[:-1], Binding("retry", "wait", routing_key="order.new")) is not None


def test_keys_that_come_through_a_fanout_or_from_a_missing_origin_are_not_guessed():
    fanout = Exchange("all", "fanout", arguments={"alternate-exchange": "dead"})

    assert (
        lost_key(
            fanout,
            DIRECT,
            a_queue("work", dlx="dead"),
            Queue("buried"),
            Binding("all", "work"),
            Binding("dead", "buried", routing_key="k"),
        )
        is None
    )


def test_patterns_that_have_too_much_in_common_are_not_worked_out():
    many = ".".join(f"#.{letter}" for letter in "abcde") + ".#"
    other = ".".join(f"#.{letter}" for letter in "vwxyz") + ".#"

    assert (
        lost_key(
            TOPIC,
            Exchange("inner", "topic", internal=True),
            DIRECT,
            a_queue("work", dlx="dead"),
            Queue("buried"),
            Binding("orders", "inner", "exchange", many),
            Binding("inner", "work", routing_key=other),
            Binding("dead", "buried", routing_key="k"),
        )
        is None
    )


def test_a_key_that_comes_from_two_exchanges_is_reported_once():
    topology = a_topology(
        TOPIC,
        DIRECT,
        a_queue("work", dlx="dead"),
        Queue("buried"),
        Binding("orders", "work", routing_key="new"),
        Binding("amq.direct", "work", routing_key="new"),
        Binding("dead", "buried", routing_key="k"),
    )

    assert [each.code for each in lint(topology)] == ["unrouted-dead-letters"]
