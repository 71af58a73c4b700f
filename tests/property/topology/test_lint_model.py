"""Lint and diagrams of any topology: no crash, and correct findings about dead letters."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from topology.analysis.cycles import alternate_cycles, automatic_cycles
from topology.analysis.diagram import dot, draw, mermaid
from topology.analysis.lint import lint
from topology.declarations import Binding, Definitions, Exchange, Policy, Queue
from topology.findings import KINDS
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.values import Table
from topology.vhost import Vhost

QUEUES = ("a", "b", "c")
EXCHANGES = ("x", "y", "amq.topic")
KEYS = ("", "a", "k", "k.l", "#", "*.l")

exchange_names = st.sampled_from((*EXCHANGES, "", "missing"))
keys = st.sampled_from(KEYS)
sizes = st.integers(0, 3)
queue_arguments: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "x-dead-letter-exchange": exchange_names,
        "x-dead-letter-routing-key": keys,
        "x-message-ttl": sizes,
        "x-max-length": sizes,
        "x-overflow": st.sampled_from(("drop-head", "reject-publish", "reject-publish-dlx")),
        "x-queue-type": st.sampled_from(("classic", "quorum")),
        "x-dead-letter-strategy": st.just("at-least-once"),
        "x-alternate-exchange": exchange_names,
    },
)
policies = st.lists(
    st.tuples(
        st.sampled_from(("", "^a$", "x|y", "^(?!a)")),
        st.fixed_dictionaries(
            {},
            optional={
                "dead-letter-exchange": exchange_names,
                "alternate-exchange": exchange_names,
                "max-length": sizes,
            },
        ),
        st.integers(-1, 1),
        st.sampled_from(("all", "queues", "exchanges", "quorum_queues", "streams")),
    ),
    max_size=3,
)


def named(drawn) -> tuple[Policy, ...]:
    """Policies with distinct names."""
    return tuple(Policy(f"p{number}", *each) for number, each in enumerate(drawn))


@st.composite
def topologies(draw: st.DrawFn) -> Definitions:
    alternates = st.none() | exchange_names
    exchanges = []
    for name in ("x", "y"):
        alternate = draw(alternates)
        arguments: Table = {} if alternate is None else {"alternate-exchange": alternate}
        kind, internal = draw(st.sampled_from(EXCHANGE_TYPES)), draw(st.booleans())
        exchanges.append(Exchange(name, kind, internal=internal, arguments=arguments))
    ends = st.tuples(st.sampled_from(EXCHANGES), st.booleans(), st.integers(0, 2), keys)
    bindings = [
        Binding(source, QUEUES[index], "queue", key)
        if to_queue
        else Binding(source, EXCHANGES[index], "exchange", key)
        for source, to_queue, index, key in draw(st.lists(ends, max_size=6))
    ]
    return Definitions(
        tuple(exchanges),
        tuple(Queue(name, arguments=draw(queue_arguments)) for name in QUEUES),
        tuple(bindings),
        named(draw(policies)),
        named(draw(policies)),
    )


@given(topologies(), st.sampled_from(("4.0", "3.10")))
def test_any_topology_can_be_linted_and_drawn_deterministically(definitions, compat):
    first, again = (
        (lint(definitions, compat), mermaid(draw(definitions, compat)), dot(draw(definitions)))
        for _ in range(2)
    )

    assert first == again
    assert all(problem.where and problem.what for problem in first[0])
    assert {KINDS[problem.code].severity for problem in first[0]} <= {"warning"}
    assert len(set(first[0])) == len(first[0])


@given(topologies())
def test_dead_letters_with_their_own_key_are_reported_lost_exactly_if_they_reach_no_queue(
    definitions,
):
    vhost = Vhost.from_definitions(definitions)
    said = {
        problem.where
        for problem in lint(definitions)
        if "dead letters" in problem.what and "are lost" in problem.what
    }

    for queue, settings in vhost.all_settings().items():
        exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if exchange is not None and key is not None:
            route = vhost.router.route(exchange, (key,))
            if route.keyed_only:
                assert (f"queue {queue!r}" in said) == (not route.queues)


@given(topologies())
def test_every_step_of_a_cycle_is_possible(definitions):
    vhost = Vhost.from_definitions(definitions)
    settings = vhost.all_settings()

    for cycle in automatic_cycles(vhost):
        for queue, following in pairwise((*cycle.queues, cycle.queues[0])):
            exchange = settings[queue].dead_letter_exchange
            assert exchange is not None
            assert following in reachable(vhost, exchange, settings[queue].dead_letter_routing_key)
    for cycle in alternate_cycles(vhost):
        for queue, following in pairwise((*cycle.queues, cycle.queues[0])):
            exchange, key = settings[queue].dead_letter_exchange, None
            if exchange is None:
                exchange = settings[queue].alternate_exchange
            else:
                key = settings[queue].dead_letter_routing_key
            assert exchange is not None
            assert following in reachable(vhost, exchange, key)


def reachable(vhost, exchange, key):
    """The queues that a message can reach; these topologies have no headers exchange.

    With an unknown key, each exchange on the way may see another one: a check that does not know
    the key may follow any binding and any alternate exchange.
    """
    if key is not None or not exchange:
        candidates = (key,) if key is not None else QUEUES
        routes = (vhost.router.route(exchange, (candidate,)) for candidate in candidates)
        return {queue for route in routes for queue in route.queues}
    queues, exchanges = set(), [exchange]
    for name in exchanges:
        ends = {
            (each.destination_type, each.destination)
            for each in vhost.router.bindings.from_exchange(name)
        } | {("exchange", vhost.router.alternate_of(name))}
        queues |= {end for kind, end in ends if kind == "queue"}
        exchanges += [
            end
            for kind, end in ends
            if kind == "exchange" and end in vhost.router.exchanges and end not in exchanges
        ]
    return queues
