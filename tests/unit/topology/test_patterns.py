"""Patterns: unanchored, linear, and the one look-ahead that policies use."""

import pytest

from topology.errors import UnsupportedPatternError
from topology.patterns import Pattern

NOT_LINEAR = (
    "cannot be matched in linear time or is malformed ({}); of look-arounds only '^(?!...)' at the"
    " beginning is supported, and no back-references"
)


@pytest.mark.parametrize(
    ("pattern", "matching", "not_matching"),
    [
        ("", ["", "a"], []),
        ("^$", [""], ["a"]),
        ("b", ["b", "abc"], ["", "a"]),
        ("^a.*z$", ["az", "abz"], ["bz", "az0"]),
        (r"^(?!amq\.).*", ["", "orders", "xamq."], ["amq.direct"]),
        (r"^(?!amq\.)", ["", "orders"], ["amq.direct"]),
        ("^(?!a|b)c", ["c", "cd"], ["a", "bc", "xc"]),
        ("^(?!a)(?!b).", ["c"], ["", "a", "b"]),
        ("^(?!a)b|^(?!x)y|z", ["b", "y", "xz"], ["a", "x", "c"]),
        (r"^(?!\(|[)(|]|[^]a-z]).*", ["abc"], ["(", ")b", "|", "A"]),
        (r"^(?!(a|b)c)x|y", ["x", "ay"], ["acx", "b"]),
        (r"^(?![[:upper:]\]|]).*", ["abc"], ["Abc", "]", "|"]),
        ("(?i)^(?!DEAD).*Q$", ["aq", "AQ"], ["deadq", "a"]),
        ("(?i)abc", ["xABCx"], ["ab"]),
        ("^(?!.*test).*", ["orders"], ["a.test.b"]),
        ("[^(?!]", ["a"], ["!"]),
        ("^größe.$", ["größeü"], ["größe"]),
        ("a", ["a\ud800"], ["\ud800"]),
    ],
)
def test_a_pattern_matches_as_in_rabbitmq(pattern, matching, not_matching):
    compiled = Pattern(pattern)

    assert [name for name in (*matching, *not_matching) if compiled.search(name)] == matching


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(", "is not a valid regular expression (missing ): a()"),
        ("[", "is not a valid regular expression (missing ]: [)"),
        *(
            (
                pattern,
                NOT_LINEAR.format(reason),
            )
            for pattern, reason in [
                (r"(a)\1", r"invalid escape sequence: \1"),
                ("(?!a)b", "invalid perl operator: (?!"),
                ("^(?=a)b", "invalid perl operator: (?="),
                ("(?<=a)b", "invalid perl operator: (?<="),
                ("(?>a)b", "invalid perl operator: (?>"),
                ("^(?!(?!a)b)c", "invalid perl operator: (?!"),
                ("^a(?!b)", "invalid perl operator: (?!"),
                ("^(?!a", "invalid perl operator: (?!"),
                ("a++", "bad repetition operator: ++"),
            ]
        ),
    ],
)
def test_unsupported_patterns_are_refused_with_the_reason(pattern, reason):
    with pytest.raises(UnsupportedPatternError) as raised:
        Pattern(pattern)

    assert (raised.value.pattern, raised.value.reason) == (pattern, reason)
    assert str(raised.value) == f"pattern {pattern!r} {reason}"


def test_a_pattern_with_exponential_backtracking_elsewhere_is_fast():
    assert not Pattern("^(a+)+$").search("a" * 100_000 + "b")
