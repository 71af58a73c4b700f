"""What lint says about keys, against the broker: cycles are those that messages travel."""

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.commands import Bind, DeclareExchange, DeclareQueue
from streaming.broker.message import Publication
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.steps import Publish
from topology.analysis.cycles import automatic_cycles
from topology.analysis.key_patterns import common_keys, pattern_of, sample_keys
from topology.analysis.lint import lint
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.routing.exchanges import new_matcher
from topology.values import Table
from topology.vhost import Vhost

QUEUES = ("a", "b", "c")
BINDING_KEYS = ("", "k", "a", "k.l", "k.*", "*.l", "*", "#", "#.l", "k.#")
KEYS = [".".join(words) for length in range(4) for words in product("klaw", repeat=length)]
KINDS = ("direct", "topic", "fanout")


@st.composite
def topologies(draw: st.DrawFn) -> Definitions:
    queues = []
    for name in QUEUES:
        arguments: Table = {"x-message-ttl": 10} if draw(st.integers(0, 3)) else {}
        if draw(st.integers(0, 3)):
            arguments["x-dead-letter-exchange"] = draw(st.sampled_from(("x", "y", "", "missing")))
            if not draw(st.integers(0, 2)):
                arguments["x-dead-letter-routing-key"] = draw(st.sampled_from(("k", "k.l", "b")))
        if not draw(st.integers(0, 2)):
            arguments["x-alternate-exchange"] = draw(st.sampled_from(("x", "y", "")))
        queues.append(Queue(name, arguments=arguments))
    alternate: Table = {"alternate-exchange": "y"} if draw(st.booleans()) else {}
    exchanges = (
        Exchange("x", draw(st.sampled_from(KINDS)), arguments=alternate),
        Exchange("y", draw(st.sampled_from(KINDS)), internal=draw(st.booleans())),
    )
    ends = st.tuples(*map(st.sampled_from, (("x", "x", "y"), (*QUEUES, "y"), BINDING_KEYS)))
    bindings = [
        Binding(source, end, "exchange" if end == "y" else "queue", key)
        for source, end, key in draw(st.lists(ends, min_size=1, max_size=6, unique=True))
        if (source, end) != ("y", "y")
    ]
    return Definitions(exchanges, tuple(queues), tuple(bindings))


def cycles_in_the_broker(definitions):
    """The queues to which the cycle rule lets no dead letter return, whatever is published."""
    broker = CoreBroker("4.0")
    broker.advance(0)
    declarations = (
        *(DeclareExchange(exchange=each) for each in definitions.exchanges),
        *(DeclareQueue(queue=each) for each in definitions.queues),
        *(Bind(binding=each) for each in definitions.bindings),
    )
    for command in declarations:
        broker.command(command)
    open_exchanges = ["", *(each.name for each in definitions.exchanges if not each.internal)]
    for exchange, key in product(open_exchanges, sorted({*KEYS, *QUEUES, *BINDING_KEYS})):
        broker.publish(Publish(Publication(exchange, key), {}, None, ""))
    for at_ms in range(0, 200, 10):
        broker.advance(at_ms)
    return {name for outcome in broker.shard.events.death_outcomes for name in outcome.cycles}


@given(topologies())
def test_a_cycle_is_reported_exactly_if_a_message_travels_it(definitions):
    reported = automatic_cycles(Vhost.from_definitions(definitions))

    travelled = cycles_in_the_broker(definitions)

    assert bool(reported) == bool(travelled)
    assert all(travelled & set(cycle.queues) for cycle in reported)


@given(topologies())
def test_a_message_with_the_named_key_comes_to_the_queue_and_is_lost_when_it_dies(definitions):
    vhost = Vhost.from_definitions(definitions)
    settings = vhost.all_settings()

    for problem in lint(definitions):
        found = re.search(r"that arrived .*routing key (?:such as )?'(.*)' are lost", problem.what)
        if problem.code != "unrouted-dead-letters" or found is None:
            continue
        queue, key = problem.where.split("'")[1], found[1]
        bindings = vhost.router.bindings.to(("queue", queue))
        kinds = {exchange.name: exchange.type for exchange in definitions.exchanges}
        assert any(matches(binding, kinds[binding.source], key) for binding in bindings)
        assert vhost.router.route(settings[queue].dead_letter_exchange or "", (key,)).queues == ()


binding_keys = st.lists(st.sampled_from(("k", "l", "*", "#")), max_size=4).map(".".join)


def matches(binding, kind, key):
    """Whether a binding of an exchange of that type matches a key."""
    matcher = new_matcher(kind, "4.0")
    matcher.add(binding)
    return bool(matcher.match((key,), None))


@given(binding_keys, binding_keys)
def test_the_common_keys_of_two_patterns_are_those_that_both_match(one, other):
    bindings = [Binding("x", "q", routing_key=key) for key in (one, other)]
    first, second = (pattern_of(binding, "topic") for binding in bindings)
    common = common_keys(first, second)
    samples = {key for pattern in common for key in sample_keys(pattern, "w", 3)}

    for key in samples:
        assert all(matches(binding, "topic", key) for binding in bindings)
    for key in KEYS:
        expected = all(matches(binding, "topic", key) for binding in bindings)
        found = any(
            matches(Binding("x", "q", routing_key=as_text(pattern)), "topic", key)
            for pattern in common
        )
        assert found == expected


def as_text(pattern):
    """A pattern as a binding key."""
    return ".".join(getattr(word, "value", word) for word in pattern)
