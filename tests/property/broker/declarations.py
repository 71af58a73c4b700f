"""Random declarations over a few names, most of them allowed, some refused."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from topology.declarations import Binding, Exchange, Policy, Queue

QUEUES = ("q0", "q1", "q2", "q3", "q4")
EXCHANGES = ("x0", "x1", "x2")
SOURCES = (*EXCHANGES, "", "amq.fanout", "none")
KEYS = (*QUEUES, "a", "a.b", "", "#")
CHANNELS = ("c0", "c1")
CONNECTIONS = ("n0", "n1")
LABELS = ("a", "b")


queues = st.sampled_from(QUEUES)
exchanges = st.sampled_from(EXCHANGES)
sources = st.sampled_from(SOURCES)
keys = st.sampled_from(KEYS)
channels = st.sampled_from(CHANNELS)
connections = st.sampled_from(CONNECTIONS)
labels = st.sampled_from(LABELS)
users = st.sampled_from([None, None, None, None, None, "ann"])
small = st.integers(0, 3)
lives_ms = st.sampled_from([0, 1, 5, 20])
timeouts_ms = st.sampled_from([0, 20, 90, "never"])
overflows = st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"])


@st.composite
def tables(draw: st.DrawFn, /, **members: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Tables with at most two of these members: a queue with every limit would stay empty."""
    names = draw(st.lists(st.sampled_from(sorted(members)), max_size=2, unique=True))
    return {name.replace("_", "-"): draw(members[name]) for name in names}


_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "x_message_ttl": lives_ms,
    "x_max_length": small,
    "x_max_length_bytes": st.integers(0, 9),
    "x_overflow": overflows,
    "x_expires": st.sampled_from([10, 50]),
    "x_consumer_timeout": timeouts_ms,
    "x_alternate_exchange": sources,
}
_classic_arguments = tables(**_COMMON, x_max_priority=st.sampled_from([1, 3, 255]))
_quorum_arguments = tables(
    **_COMMON,
    x_delivery_limit=st.integers(0, 2),
    x_dead_letter_strategy=st.sampled_from(["at-least-once", "at-most-once"]),
)
_dead_letters = st.one_of(
    st.just({}),
    st.builds(lambda name: {"x-dead-letter-exchange": name}, sources),
    st.builds(
        lambda name, key: {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": key},
        sources,
        keys,
    ),
)


@st.composite
def queue_declarations(draw: st.DrawFn, name: str | None = None) -> Queue:
    """A queue of either type; some are refused."""
    chosen = name if name is not None else draw(queues)
    if draw(st.booleans()):
        arguments = {"x-queue-type": "quorum", **draw(_quorum_arguments), **draw(_dead_letters)}
        if draw(st.booleans()) and "x-dead-letter-exchange" in arguments:
            arguments |= {"x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
        return Queue(chosen, arguments=arguments)
    arguments = {**draw(_classic_arguments), **draw(_dead_letters)}
    return Queue(
        chosen,
        auto_delete=draw(st.integers(0, 5)) == 0,
        exclusive=draw(st.integers(0, 7)) == 0,
        arguments=arguments,
    )


exchange_declarations = st.builds(
    Exchange,
    exchanges,
    st.sampled_from(["direct", "fanout", "topic", "headers"]),
    auto_delete=st.sampled_from([False, False, False, True]),
    internal=st.sampled_from([False, False, False, True]),
    arguments=tables(alternate_exchange=sources),
)
bindings = st.one_of(
    st.builds(Binding, exchanges | sources, queues, routing_key=keys),
    st.builds(Binding, exchanges, exchanges, st.just("exchange"), keys),
    st.builds(Binding, exchanges, queues, arguments=st.just({"x-match": "any-with-x", "h": 1})),
)
_definitions = st.one_of(
    tables(message_ttl=lives_ms, max_length=small, overflow=overflows),
    tables(dead_letter_exchange=sources, dead_letter_routing_key=keys),
    tables(expires=st.just(20), delivery_limit=st.integers(-1, 2)),
    tables(consumer_timeout=st.sampled_from([0, 20, 90])),
    tables(alternate_exchange=sources, queue_alternate_exchange=sources),
)
names = st.sampled_from(["p", "r"])
patterns = st.sampled_from([".*", "^q[01]$", "x", "^(?!q)"])
policies = st.builds(Policy, names, patterns, _definitions, st.integers(0, 2))
operator_policies = st.builds(
    Policy, names, patterns, tables(message_ttl=lives_ms, max_length=small)
)

documents = st.fixed_dictionaries(
    {},
    optional={
        "queues": st.lists(st.builds(lambda name: {"name": name}, queues), max_size=2),
        "exchanges": st.lists(
            st.builds(lambda name: {"name": name, "type": "fanout"}, exchanges), max_size=1
        ),
        "bindings": st.lists(
            st.builds(
                lambda source, queue: {
                    "source": source,
                    "destination": queue,
                    "destination_type": "queue",
                    "routing_key": "a",
                },
                sources,
                queues,
            ),
            max_size=2,
        ),
        "odd": st.just(1),
    },
)
