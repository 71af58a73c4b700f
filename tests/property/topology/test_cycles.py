"""Automatic dead-letter cycles, against a search that tries every journey."""

from hypothesis import given
from hypothesis import strategies as st

from topology.analysis.cycles import automatic_cycles, automatic_reasons
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.values import Table
from topology.vhost import Vhost

NAMES = ("a", "b", "c", "d")
KEYS = ("k", "l", "a", "b")


@st.composite
def topologies(draw: st.DrawFn) -> Definitions:
    """Direct exchanges only, so that every key is known and every journey can be tried."""
    queues = []
    for name in NAMES:
        arguments: Table = {}
        if draw(st.booleans()):
            arguments["x-message-ttl"] = 1000
        if draw(st.booleans()):
            arguments["x-dead-letter-exchange"] = draw(st.sampled_from(("", "x", "y", "missing")))
            if draw(st.booleans()):
                arguments["x-dead-letter-routing-key"] = draw(st.sampled_from(KEYS))
        queues.append(Queue(name, arguments=arguments))
    exchanges = (Exchange("x", arguments={"alternate-exchange": "y"}), Exchange("y"))
    ends = st.tuples(*map(st.sampled_from, (("x", "y"), NAMES, KEYS)))
    bindings = ends.map(lambda end: Binding(end[0], end[1], routing_key=end[2]))
    return Definitions(exchanges, tuple(queues), tuple(draw(st.lists(bindings, max_size=6))))


def comes_back(compiled: Vhost, queue: str, key: str, died_in: tuple[str, ...]) -> bool:
    """Whether a message that always dies automatically may reach a queue it has died in."""
    if queue in died_in:
        return True
    settings = compiled.settings(compiled.queues[queue])
    if settings.dead_letter_exchange is None or not automatic_reasons(settings):
        return False
    if settings.dead_letter_routing_key is not None:
        key = settings.dead_letter_routing_key
    targets = compiled.router.route(settings.dead_letter_exchange, (key,)).queues
    return any(comes_back(compiled, target, key, (*died_in, queue)) for target in targets)


@given(topologies())
def test_there_is_a_lap_exactly_if_some_message_comes_back_to_where_it_died(definitions):
    compiled = Vhost.from_definitions(definitions)
    arrivals = [(name, name) for name in NAMES]
    arrivals += [(binding.destination, binding.routing_key) for binding in definitions.bindings]

    laps = automatic_cycles(compiled)

    assert bool(laps) == any(comes_back(compiled, queue, key, ()) for queue, key in arrivals)


@given(topologies())
def test_a_lap_has_every_queue_once_and_each_can_kill_by_itself(definitions):
    compiled = Vhost.from_definitions(definitions)

    for lap in automatic_cycles(compiled):
        assert len(set(lap.queues)) == len(lap.queues)
        assert lap.queues[0] == min(lap.queues)
        assert all(lap.reasons)
        assert lap.reasons == tuple(
            automatic_reasons(compiled.settings(compiled.queues[queue])) for queue in lap.queues
        )
