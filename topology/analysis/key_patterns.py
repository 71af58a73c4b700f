"""Sets of routing keys, written as topic patterns, and sample keys that stand for all of a set.

A binding key of a topic exchange is a pattern. A literal key is a pattern without wildcards. `*`
and `#` are ordinary words in a key of a direct exchange, so wildcards are marks here, not text.

Sample keys put a word that no binding has in the place of each wildcard. A binding that matches
such a key matches every key of the same shape. So the sample key of a shape meets the fewest
bindings: if it reaches a queue, all keys of that shape do.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from itertools import islice, product

from topology.declarations import Binding
from topology.routing.topic_exchange import split_words


class Wild(Enum):
    """A wildcard: exactly one word, or zero or more."""

    ONE = "*"
    MANY = "#"


KeyPattern = tuple[str | Wild, ...]

ANY_KEY: KeyPattern = (Wild.MANY,)

MAX_PATTERNS = 64
MAX_SAMPLES = 400
MAX_HASHES = 4
"""Limits: intersections and samples of patterns with many `#` multiply."""

_WILDCARDS = {"*": Wild.ONE, "#": Wild.MANY}


class TooManyPatternsError(Exception):
    """An exact answer would take too long."""


def literal(key: str) -> KeyPattern:
    """The set of one key."""
    return tuple(split_words(key))


def pattern_of(binding: Binding, source_type: str) -> KeyPattern:
    """The keys that a binding of an exchange of that type matches."""
    if source_type == "direct":
        return literal(binding.routing_key)
    if source_type != "topic":
        return ANY_KEY
    words = split_words(binding.routing_key)
    return tuple(_WILDCARDS.get(word, word) for word in words)


def is_literal(pattern: KeyPattern) -> bool:
    """Whether the set has one key."""
    return not any(isinstance(word, Wild) for word in pattern)


def common_keys(one: KeyPattern, other: KeyPattern) -> frozenset[KeyPattern]:
    """The keys in both sets, as a union of patterns.

    Raises:
        TooManyPatternsError: they have more than `MAX_PATTERNS`, or one has many `#`.
    """
    if max(one.count(Wild.MANY), other.count(Wild.MANY)) > MAX_HASHES:
        raise TooManyPatternsError
    if other in {one, ANY_KEY}:
        return frozenset((one,))
    return _common(one, other)


@lru_cache(maxsize=10_000)
def _common(one: KeyPattern, other: KeyPattern) -> frozenset[KeyPattern]:
    if not one or not other:
        rest = one or other
        return frozenset(((),)) if all(word is Wild.MANY for word in rest) else frozenset()
    if one[0] is other[0] is Wild.MANY:
        # Both take the same words until one of them ends.
        rests = _common(one[1:], other) | _common(one, other[1:])
        found = set(_after(Wild.MANY, rests))
    elif Wild.MANY in {one[0], other[0]}:
        if one[0] is not Wild.MANY:
            one, other = other, one
        # The `#` ends here, or takes the first word of the other.
        found = {*_common(one[1:], other), *_after(other[0], _common(one, other[1:]))}
    elif one[0] is Wild.ONE or other[0] is Wild.ONE or one[0] == other[0]:
        word = other[0] if one[0] is Wild.ONE else one[0]
        found = set(_after(word, _common(one[1:], other[1:])))
    else:
        found = set()
    if len(found) > MAX_PATTERNS:
        raise TooManyPatternsError
    return frozenset(found)


def _after(word: str | Wild, patterns: Iterable[KeyPattern]) -> Iterator[KeyPattern]:
    for pattern in patterns:
        doubled = word is Wild.MANY and pattern[:1] == ANY_KEY
        yield pattern if doubled else (word, *pattern)


def closed_under_intersection(patterns: Iterable[KeyPattern]) -> set[KeyPattern]:
    """The patterns, and those of the keys that any of them have in common.

    Raises:
        TooManyPatternsError: there are more than `MAX_PATTERNS`.
    """
    closed: dict[KeyPattern, None] = {}
    work = list(patterns)
    for pattern in work:
        if pattern in closed:
            continue
        for before in tuple(closed):
            work.extend(common_keys(pattern, before) - closed.keys())
        closed[pattern] = None
        if len(closed) > MAX_PATTERNS:
            raise TooManyPatternsError
    return set(closed)


def sample_keys(pattern: KeyPattern, word: str, longest: int) -> Iterator[str]:
    """One key of each shape that a pattern admits, at most `MAX_SAMPLES`.

    Those in which every `#` takes a word come first, for they are typical; shorter ones before.

    Args:
        word: stands for any word.
        longest: how many words a `#` may take: more make no difference to shorter bindings.
    """
    lengths = [range(longest + 1) if each is Wild.MANY else range(1, 2) for each in pattern]
    shapes = sorted(
        islice(product(*lengths), MAX_SAMPLES), key=lambda shape: (0 in shape, sum(shape))
    )
    for shape in shapes:
        words: list[str] = []
        for each, length in zip(pattern, shape, strict=True):
            words += [word] * length if isinstance(each, Wild) else [each]
        yield ".".join(words)


def word_beside(words: Collection[str]) -> str:
    """A word that is none of these."""
    number, word = 1, "x"
    while word in words:
        number += 1
        word = f"x{number}"
    return word
