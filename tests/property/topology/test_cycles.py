"""Cycles, against a search that tries every path."""

from hypothesis import given
from hypothesis import strategies as st

from topology.analysis.cycles import alternate_cycles, automatic_cycles
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.values import Table
from topology.vhost import Vhost

NAMES = ("a", "b", "c", "d")
KEYS = ("k", "l", "a", "b")


@st.composite
def topologies(draw: st.DrawFn) -> Definitions:
    """Direct exchanges only, so that every key is known and every path can be tried."""
    queues = []
    for name in NAMES:
        arguments: Table = {}
        if draw(st.booleans()):
            arguments["x-message-ttl"] = 1000
        if draw(st.booleans()):
            arguments["x-dead-letter-exchange"] = draw(st.sampled_from(("", "x", "y", "missing")))
            if draw(st.booleans()):
                arguments["x-dead-letter-routing-key"] = draw(st.sampled_from(KEYS))
        if draw(st.booleans()):
            arguments["x-alternate-exchange"] = draw(st.sampled_from(("", "x", "y", "missing")))
        queues.append(Queue(name, arguments=arguments))
    exchanges = (Exchange("x", arguments={"alternate-exchange": "y"}), Exchange("y"))
    ends = st.tuples(*map(st.sampled_from, (("x", "y"), NAMES, KEYS)))
    bindings = ends.map(lambda end: Binding(end[0], end[1], routing_key=end[2]))
    return Definitions(exchanges, tuple(queues), tuple(draw(st.lists(bindings, max_size=6))))


def arrivals(definitions):
    """Every queue, with every key with which a message may be published to it."""
    named = [(name, name) for name in NAMES]
    return named + [(each.destination, each.routing_key) for each in definitions.bindings]


def arguments_of(definitions):
    return {queue.name: queue.arguments for queue in definitions.queues}


def returns_over_its_alternate(vhost, arguments, queue, key):
    """Whether a message can return to a queue that sent it to its alternate exchange."""
    if (
        "x-dead-letter-exchange" in arguments[queue]
        or "x-alternate-exchange" not in arguments[queue]
    ):
        return False
    work, seen = [(queue, key)], set()
    for name, here in work:
        its = arguments[name]
        exchange = its.get("x-dead-letter-exchange", its.get("x-alternate-exchange"))
        if exchange is None:
            continue
        onward = here
        if "x-dead-letter-exchange" in its:
            onward = its.get("x-dead-letter-routing-key", here)
        for target in vhost.router.route(exchange, (onward,)).queues:
            if target == queue:
                return True
            if (target, onward) not in seen:
                seen.add((target, onward))
                work.append((target, onward))
    return False


@given(topologies())
def test_an_alternate_cycle_is_found_exactly_if_a_rejected_message_can_return(definitions):
    vhost, arguments = Vhost.from_definitions(definitions), arguments_of(definitions)

    cycles = alternate_cycles(vhost)

    returning = {
        queue
        for queue, key in arrivals(definitions)
        if returns_over_its_alternate(vhost, arguments, queue, key)
    }
    found = {queue for cycle in cycles for queue in cycle.queues}
    assert bool(cycles) == bool(returning)
    assert all(set(cycle.queues) & returning for cycle in cycles)
    assert returning <= found


@given(topologies())
def test_an_automatic_cycle_lists_every_queue_once_and_each_has_automatic_deaths(definitions):
    arguments = arguments_of(definitions)

    for cycle in automatic_cycles(Vhost.from_definitions(definitions)):
        assert len(set(cycle.queues)) == len(cycle.queues)
        assert cycle.queues[0] == min(cycle.queues)
        assert cycle.reasons == (("expired",),) * len(cycle.queues)
        assert all("x-message-ttl" in arguments[queue] for queue in cycle.queues)
