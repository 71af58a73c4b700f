"""Lint of a queue's own alternate exchange, and of large topologies."""

import pytest

from tests.fixtures.steps import lines_run
from tests.unit.topology.analysis.lint_topologies import (
    BURIED,
    DEAD,
    ORDERS,
    WORK,
    a_queue,
    a_topology,
)
from topology.analysis.cycles import alternate_cycles
from topology.analysis.lint import lint
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.vhost import Vhost


def said(topology):
    """The findings about queues, by queue."""
    return {problem.where: problem.what for problem in lint(topology)}


@pytest.mark.parametrize(
    ("alternate", "others", "words"),
    [
        ("daed", BURIED, ["its alternate exchange 'daed' does not exist", "did you mean 'dead'"]),
        ("dead", (DEAD,), ["nothing is bound to its alternate exchange"]),
        (
            "keyed",
            (Exchange("keyed"), Queue("other"), Binding("keyed", "other", routing_key="other")),
            ["with routing key 'new'", "has no binding for it"],
        ),
    ],
)
def test_an_alternate_exchange_that_loses_messages_is_found(alternate, others, words):
    work = a_queue("work", alternate_exchange=alternate)

    problems = said(a_topology(ORDERS, WORK, work, *others))

    assert list(problems) == ["queue 'work'"]
    assert all(word in problems["queue 'work'"] for word in words)
    assert "rejected and orphaned messages" in problems["queue 'work'"]


def test_beside_a_dead_letter_exchange_only_orphans_take_the_alternate_exchange():
    work = a_queue("work", dlx="dead", alternate_exchange="missing")

    problems = said(a_topology(ORDERS, WORK, work, *BURIED))

    assert problems["queue 'work'"].endswith(": orphaned messages are lost")


def test_an_alternate_exchange_that_leads_to_a_queue_is_clean():
    work = a_queue("work", alternate_exchange="dead")

    assert said(a_topology(ORDERS, WORK, work, *BURIED)) == {}


def test_a_queue_behind_an_internal_alternate_exchange_is_reachable():
    inner = Exchange("inner", "fanout", internal=True)
    work = a_queue("work", alternate_exchange="inner")
    topology = a_topology(ORDERS, WORK, work, inner, Queue("spare"), Binding("inner", "spare"))

    assert said(topology) == {}


def test_a_chain_of_alternate_exchanges_is_followed_to_its_end():
    first = Exchange("first", "direct", arguments={"alternate-exchange": "second"})
    second = Exchange("second", "direct", arguments={"alternate-exchange": "dead"})
    work = a_queue("work", alternate_exchange="first")

    assert said(a_topology(ORDERS, WORK, work, first, second, *BURIED)) == {}


def test_an_alternate_target_that_refuses_when_full_is_found():
    spare = a_queue("spare", max_length=5, overflow="reject-publish")
    work = a_queue("work", alternate_exchange="dead")

    problems = said(a_topology(ORDERS, WORK, work, DEAD, spare, Binding("dead", "spare")))

    assert problems["queue 'work'"].startswith(
        "its rejected and orphaned messages that find 'spare'"
    )


def cycles_of(*items):
    return [str(cycle) for cycle in alternate_cycles(Vhost.from_definitions(a_topology(*items)))]


def test_a_queue_that_its_own_alternate_exchange_feeds_is_a_cycle():
    work = a_queue("work", alternate_exchange="dead")
    topology = a_topology(work, DEAD, Binding("dead", "work"))

    assert "alternate exchange cycle: work -(rejected)-> work" in said(topology)["queue 'work'"]


def test_a_retry_through_an_alternate_exchange_is_a_cycle_on_any_way_back():
    work = a_queue("work", alternate_exchange="dead")
    retry = a_queue("retry", ttl_ms=1000, dlx="orders", key="new")

    assert cycles_of(ORDERS, WORK, work, DEAD, Binding("dead", "retry"), retry) == [
        "retry -(expired or rejected)-> work -(rejected)-> retry"
    ]


def test_a_dead_letter_exchange_takes_rejected_messages_before_the_alternate_exchange():
    work = a_queue("work", alternate_exchange="dead", dlx="other")

    assert cycles_of(work, DEAD, Binding("dead", "work"), Exchange("other", "fanout")) == []


def test_a_cycle_is_harmless_for_a_queue_that_reroutes_every_time():
    work = a_queue("work", alternate_exchange="dead", reroute_once=False)

    assert cycles_of(work, DEAD, Binding("dead", "work")) == []


def test_a_cycle_of_dead_letters_alone_is_not_a_cycle_of_alternates():
    work, other = a_queue("work", dlx="", key="other"), a_queue("other", dlx="", key="work")
    spare = a_queue("spare", alternate_exchange="dead")

    assert cycles_of(work, other, spare, DEAD, Binding("dead", "work")) == []


@pytest.mark.parametrize("kind", ["fanout", "topic", "headers"])
def test_the_check_is_linear_in_the_queues_around_one_exchange(kind):
    def lines(count):
        names = [f"q{number:04}" for number in range(count)]
        topology = Definitions(
            exchanges=(Exchange("retry", kind),),
            queues=tuple(a_queue(name, ttl_ms=1, dlx="retry") for name in names),
            bindings=tuple(Binding("retry", name, routing_key="#") for name in names),
        )
        return lines_run(lambda: lint(topology))

    assert lines(2_000) < 3 * lines(1_000)


def test_problems_of_thousands_of_queues_are_bounded():
    names = [f"q{number:04}" for number in range(5_000)]
    topology = Definitions(
        exchanges=(Exchange("retry", "fanout"),),
        queues=tuple(a_queue(name, ttl_ms=1, dlx="retry") for name in names),
        bindings=tuple(Binding("retry", name) for name in names),
    )

    assert len(lint(topology)) == 100
