"""Sets of routing keys as patterns."""

import pytest

from topology.analysis.key_patterns import (
    ANY_KEY,
    TooManyPatternsError,
    Wild,
    closed_under_intersection,
    common_keys,
    is_literal,
    literal,
    pattern_of,
    sample_keys,
    word_beside,
)
from topology.declarations import Binding


def a_pattern(text):
    return pattern_of(Binding("x", "q", routing_key=text), "topic")


def common(one, other):
    """The keys in common, written as binding keys."""
    return {
        ".".join(word.value if isinstance(word, Wild) else word for word in pattern)
        for pattern in common_keys(a_pattern(one), a_pattern(other))
    }


@pytest.mark.parametrize(
    ("one", "other", "keys"),
    [
        ("a.*", "*.b", {"a.b"}),
        ("a.#", "#.b", {"a.#.b"}),
        ("a.#", "b.#", set()),
        ("a.*", "a.*.*", set()),
        ("#", "a.#", {"a.#"}),
        ("a", "a", {"a"}),
        ("a.#", "a", {"a"}),
        ("#.a.#", "#.b.#", {"#.a.#.b.#", "#.b.#.a.#"}),
    ],
)
def test_the_keys_that_two_patterns_have_in_common(one, other, keys):
    assert common(one, other) == keys == common(other, one)


def test_wildcards_are_ordinary_words_in_a_key_of_a_direct_exchange():
    direct = pattern_of(Binding("x", "q", routing_key="a.*"), "direct")

    assert is_literal(direct)
    assert direct == literal("a.*") != a_pattern("a.*")
    assert pattern_of(Binding("x", "q", routing_key="a"), "fanout") == ANY_KEY


def test_patterns_are_closed_under_intersection():
    closed = closed_under_intersection(map(a_pattern, ("a.*.*", "*.b.*", "*.*.c")))

    assert {a_pattern("a.b.*"), a_pattern("a.*.c"), a_pattern("*.b.c"), literal("a.b.c")} < closed
    assert len(closed) == 7


def test_too_many_patterns_are_not_worked_out():
    words = [f"#.{word}.#.{word}.#" for word in "abcdefgh"]

    with pytest.raises(TooManyPatternsError):
        closed_under_intersection(map(a_pattern, words))
    with pytest.raises(TooManyPatternsError):
        common_keys(a_pattern("#.a.#.b.#.c.#.d.#.e.#"), a_pattern("#.v.#.w.#.x.#.y.#.z.#"))
    with pytest.raises(TooManyPatternsError):
        common_keys(a_pattern("#.*.*.*.*.*.*.*.*.*.#.z.#"), a_pattern("#.a.b.c.d.e.f.g.h.i.#.y.#"))
    with pytest.raises(TooManyPatternsError):
        closed_under_intersection(a_pattern(f"#.{number}") for number in range(70))


def test_a_sample_has_each_shape_the_typical_ones_first():
    assert list(sample_keys(a_pattern("a.*"), "x", 2)) == ["a.x"]
    assert list(sample_keys(a_pattern("a.#"), "x", 2)) == ["a.x", "a.x.x", "a"]
    assert list(sample_keys(literal("a.b"), "x", 2)) == ["a.b"]
    assert word_beside({"x", "x2"}) == "x3"
