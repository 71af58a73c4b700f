"""Strategies for AMQP values and for anything JSON."""

from decimal import Decimal

from hypothesis import strategies as st

from topology.values import INTEGERS, Timestamp

texts = st.text(max_size=5)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INTEGERS.start, INTEGERS.stop - 1),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=5),
    st.builds(Timestamp, st.integers(0, 2**40)),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: Decimal(str(number))),
)
json_scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), texts)


def amqp_values(depth=3):
    """Values nested up to `depth` levels, without tables that are ambiguous in JSON."""
    values = scalars
    for _ in range(depth):
        tables = st.dictionaries(texts, values, max_size=3)
        values = st.one_of(scalars, st.lists(values, max_size=3), tables)
    return values


def json_values():
    """Anything that a JSON document may hold."""
    return st.recursive(
        json_scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)
        ),
        max_leaves=6,
    )
