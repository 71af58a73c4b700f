"""The topic trie against an obvious implementation of the AMQP rule."""

from hypothesis import given
from hypothesis import strategies as st

from topology.declarations import Binding
from topology.routing.topic_exchange import TopicMatcher, split_words

words = st.sampled_from(["a", "b", ""])
binding_keys = st.lists(st.one_of(words, st.sampled_from("*#")), max_size=6).map(".".join)
routing_keys = st.lists(st.one_of(words, st.just("*")), max_size=7).map(".".join)
bindings = st.builds(
    Binding,
    st.just("x"),
    st.sampled_from(["q", "r", "s"]),
    st.sampled_from(["queue", "exchange"]),
    binding_keys,
)


def matches_by_the_book(pattern, routed):
    """Whether the words of a routing key match those of a binding key."""
    if not pattern:
        return not routed
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(matches_by_the_book(rest, routed[at:]) for at in range(len(routed) + 1))
    if not routed:
        return False
    return first in ("*", routed[0]) and matches_by_the_book(rest, routed[1:])


def by_the_book(bound, keys):
    return {
        (binding.destination_type, binding.destination)
        for binding in bound
        for key in keys
        if matches_by_the_book(split_words(binding.routing_key), split_words(key))
    }


def by_the_trie(matcher, keys):
    groups = matcher.match(tuple(keys), None)
    queues = {("queue", name) for group in groups for name in group.queues}
    return queues | {("exchange", name) for group in groups for name in group.exchanges}


@given(
    st.lists(bindings, max_size=12, unique_by=lambda binding: binding.key),
    st.lists(routing_keys, min_size=1, max_size=3),
    st.data(),
)
def test_the_trie_agrees_with_the_rule_before_and_after_removals(bound, keys, data):
    matcher = TopicMatcher()
    for binding in bound:
        matcher.add(binding)

    assert by_the_trie(matcher, keys) == by_the_book(bound, keys)

    kept = list(bound)
    gone = data.draw(st.lists(st.sampled_from(bound), unique_by=id)) if bound else []
    for binding in gone:
        matcher.remove(binding)
        kept.remove(binding)
        assert by_the_trie(matcher, keys) == by_the_book(kept, keys)


@given(binding_keys, st.lists(st.sampled_from(["a", "b"]), max_size=40).map(".".join))
def test_no_destination_group_is_found_twice(binding_key, routing_key):
    matcher = TopicMatcher()
    matcher.add(Binding("x", "q", "queue", binding_key))

    assert len(matcher.match((routing_key,), None)) <= 1
