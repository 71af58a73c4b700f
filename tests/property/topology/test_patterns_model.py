"""Guarded patterns against Python's own engine, on patterns that both support."""

import re

from hypothesis import given
from hypothesis import strategies as st

from topology.patterns import Pattern

atoms = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a|]", r"[\]|(]", "(a|b)", "(?:ab)", "$"])
simple = st.lists(atoms, max_size=3).map("".join)
guards = st.lists(st.lists(simple, min_size=1, max_size=2).map("|".join), max_size=2)
alternatives = st.builds(
    lambda guarded, rest: "^" + "".join(f"(?!{guard})" for guard in guarded) + rest,
    guards,
    simple,
)
patterns = st.lists(st.one_of(alternatives, simple), min_size=1, max_size=3).map("|".join)


@given(patterns, st.text("ab.|]()", max_size=6))
def test_a_pattern_matches_like_pythons_engine(pattern, name):
    assert Pattern(pattern).search(name) is (re.search(pattern, name) is not None)
