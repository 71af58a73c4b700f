"""The headers exchange against an obvious implementation of its rule."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tests.property.topology.amqp_values import amqp_values
from topology.declarations import Binding
from topology.routing.headers_exchange import X_MATCH, HeadersMatcher
from topology.values import Timestamp, match_key

names = st.sampled_from(["a", "b", "c", "x-a", "x-match"])
few_values = st.sampled_from(
    [1, 1.0, 2, True, "1", b"1", None, [1], {"k": 1}, [], {}, Timestamp(1), 1000, b"\xff"]
)
tables = st.dictionaries(names, st.one_of(few_values, amqp_values(depth=1)), max_size=4)


@st.composite
def header_bindings(draw):
    arguments = draw(tables)
    arguments.pop("x-match", None)
    if draw(st.booleans()):
        arguments["x-match"] = draw(st.sampled_from(X_MATCH))
    return Binding("h", draw(st.sampled_from("qrs")), arguments=arguments)


def plain(value, second):
    if isinstance(value, Timestamp):
        return value.seconds * second
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return {} if value == [] else value


def equal(wanted, value, compat):
    wanted, value = plain(wanted, 1), plain(value, 1000 if compat == "4.0" else 1)
    if compat == "3.10" and type(wanted) in (int, float) and type(value) in (int, float):
        return wanted == value
    return match_key(wanted) == match_key(value)


def matches_by_the_book(arguments, headers, compat):
    """R-HDR-1 to R-HDR-6, pair by pair."""
    x_match = arguments.get("x-match", "all")
    verdicts = []
    for name, wanted in arguments.items():
        if name == "x-match" or (name.startswith("x-") and not x_match.endswith("-with-x")):
            continue
        present = name in headers
        verdicts.append(present and (wanted is None or equal(wanted, headers[name], compat)))
    return all(verdicts) if x_match.startswith("all") else any(verdicts)


def by_the_book(bound, headers, compat):
    return {
        binding.destination
        for binding in bound
        if matches_by_the_book(binding.arguments, headers or {}, compat)
    }


def by_the_index(matcher, headers):
    return {queue for group in matcher.match(("",), headers) for queue in group.queues}


@given(
    st.sampled_from(["4.0", "3.10"]),
    st.lists(header_bindings(), max_size=10, unique_by=lambda binding: binding.key),
    st.one_of(st.none(), tables),
    st.data(),
)
def test_the_index_agrees_with_the_rule_before_and_after_removals(compat, bound, headers, data):
    matcher = HeadersMatcher(compat)
    for binding in bound:
        matcher.add(binding)

    assert by_the_index(matcher, headers) == by_the_book(bound, headers, compat)

    kept = list(bound)
    gone = data.draw(st.lists(st.sampled_from(bound), unique_by=id)) if bound else []
    for binding in gone:
        matcher.remove(binding)
        kept.remove(binding)
        assert by_the_index(matcher, headers) == by_the_book(kept, headers, compat)


def test_a_table_of_floats_equals_one_of_integers_on_neither_version():
    """Found while writing: 3.10 compares types inside tables."""
    for compat in ("4.0", "3.10"):
        matcher = HeadersMatcher(compat)
        matcher.add(Binding("h", "q", arguments={"a": {"k": 1}}))

        assert by_the_index(matcher, {"a": {"k": 1.0}}) == set()
