"""What RabbitMQ accepts and is probably a mistake."""

import pytest

from topology.declarations import Binding, Definitions, Exchange, Policy, Queue
from topology.errors import Problem
from topology.lint import lint


def a_topology(*items, **more):
    """Definitions of whatever is given; exchanges and queues are usually bound to something."""
    return Definitions(
        exchanges=tuple(item for item in items if isinstance(item, Exchange)),
        queues=tuple(item for item in items if isinstance(item, Queue)),
        bindings=tuple(item for item in items if isinstance(item, Binding)),
        **more,
    )


def a_queue(name, **arguments):
    """A queue; `ttl_ms=1` stands for x-message-ttl, `dlx` and `key` for where dead letters go."""
    names = {
        "ttl_ms": "x-message-ttl",
        "dlx": "x-dead-letter-exchange",
        "key": "x-dead-letter-routing-key",
        "max_length": "x-max-length",
    }
    return Queue(
        name,
        arguments={
            names.get(argument) or "x-" + argument.replace("_", "-"): value
            for argument, value in arguments.items()
        },
    )


ORDERS = Exchange("orders", "direct")
WORK = Binding("orders", "work", routing_key="new")
DEAD = Exchange("dead", "fanout")
BURIED = (DEAD, Queue("buried"), Binding("dead", "buried"))


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


def test_a_missing_dead_letter_exchange_is_found_and_the_right_name_suggested():
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


def test_a_dead_letter_exchange_whose_alternate_takes_everything_is_clean():
    topology = a_topology(
        ORDERS,
        WORK,
        a_queue("work", dlx="keyed"),
        Exchange("keyed", "direct", arguments={"alternate-exchange": "dead"}),
        *BURIED,
    )

    assert lint(topology) == ()


def test_a_dead_letter_routing_key_that_no_binding_takes_is_found():
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
            "dead letters of messages that came with routing key 'new' are lost: "
            "exchange 'keyed' has no binding for it",
        ),
    )


def test_a_dead_letter_routing_key_that_names_no_queue_is_found():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="", key="burried"), *BURIED)

    assert lint(topology) == (
        Problem(
            "queue 'work'",
            "its dead letters with routing key 'burried' are lost: no queue has that name",
        ),
    )


def test_the_default_exchange_without_a_key_sends_dead_letters_back_and_is_clean():
    assert lint(a_topology(ORDERS, WORK, a_queue("work", dlx=""))) == ()


def test_a_dead_letter_routing_key_without_an_exchange_is_found():
    topology = a_topology(ORDERS, WORK, a_queue("work", key="failed"))

    assert lint(topology) == (
        Problem("queue 'work'", "has dead-letter routing key 'failed' and no dead-letter exchange"),
    )


@pytest.mark.parametrize(
    ("alternate", "others", "what"),
    [
        (
            "unruted",
            (Exchange("unrouted", "fanout"), Queue("lost"), Binding("unrouted", "lost")),
            (
                "its alternate exchange 'unruted' does not exist (did you mean 'unrouted'?): "
                "what no binding takes is lost"
            ),
        ),
        (
            "unrouted",
            (Exchange("unrouted", "fanout"),),
            "nothing is bound to its alternate exchange 'unrouted': what no binding takes is lost",
        ),
        ("", (), "its alternate exchange is the default exchange, which takes nothing"),
        ("orders", (), "is its own alternate exchange, which has no effect"),
    ],
)
def test_an_alternate_exchange_that_takes_nothing_is_found(alternate, others, what):
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

    what = "leads to no queue: what is published to it is lost"
    assert lint(topology) == (
        Problem("exchange 'forwarding'", what),
        Problem("exchange 'idle'", what),
    )


def test_a_queue_that_only_its_name_reaches_is_found():
    assert lint(a_topology(Queue("lonely"))) == (
        Problem(
            "queue 'lonely'",
            "is unreachable: no binding or dead letter leads to it, only a publish to the default "
            "exchange by its name",
        ),
    )


def test_a_queue_behind_an_internal_exchange_that_nothing_feeds_is_found():
    topology = a_topology(
        Exchange("inner", "fanout", internal=True), Queue("work"), Binding("inner", "work")
    )

    (problem,) = lint(topology)

    assert problem.where == "queue 'work'"
    assert problem.what.startswith("is unreachable")


def test_a_queue_that_dead_letters_reach_by_name_is_clean():
    topology = a_topology(ORDERS, WORK, a_queue("work", dlx="", key="buried"), Queue("buried"))

    assert lint(topology) == ()


def test_a_ring_of_automatic_deaths_is_found_with_its_reasons():
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
            "what comes round unrejected is dropped",
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


def test_of_several_refusing_targets_one_is_named_and_the_rest_are_counted():
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


def test_a_dead_letter_target_that_refuses_is_no_danger_at_least_once_or_without_a_limit():
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


def test_at_least_once_that_degrades_is_found():
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
