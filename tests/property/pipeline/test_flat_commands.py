"""A command decoded in one step equals the one that is read member by member."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from streaming.protocol.command_json import KINDS, parse_command, read_flat
from streaming.protocol.json_input import read_json
from topology.errors import InvalidTopologyError

names = st.text(max_size=5) | st.just("c" * 256) | st.just("é" * 128)
wrong = st.none() | st.booleans() | st.floats(0, 3) | st.lists(st.integers(), max_size=2)
numbers = st.integers(-1, 3) | st.sampled_from([65_536, 1 << 31, 1 << 53, 1 << 64])
words = st.sampled_from(["requeue", "pause", "share", "1/0/42", "1/0/-1", "1/0/²", "1/0/42\n"])
values = names | words | numbers | wrong | st.lists(st.text(max_size=5), max_size=3)
members = sorted({name for kind in KINDS.values() for name in kind.__struct_encode_fields__})
of_op = {op: kind.__struct_encode_fields__ for op, kind in KINDS.items()}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """A command with its own members, or others, that may have the right types."""
    op = draw(st.sampled_from(sorted(KINDS)))
    own = draw(st.dictionaries(st.sampled_from(of_op[op]), values, max_size=5))
    other = draw(st.dictionaries(st.sampled_from([*members, "surplus"]), values, max_size=1))
    return {"op": op, **own, **draw(st.sampled_from([{}, {}, other]))}


@given(documents())
@example({"op": "ack", "refs": ["c/1"], "channel": None})
@example({"op": "nack", "refs": [], "multiple": True, "requeue": True})
@example({"op": "reject", "refs": ["a"], "channel": "c" * 256})
@example({"op": "get", "queue": "é" * 128})
@example({"op": "get", "queue": "q", "count": None, "lane": 0})
def test_both_ways_of_reading_a_command_agree(document):
    value = json.dumps(document).encode()
    try:
        expected = parse_command(read_json(value))
    except InvalidTopologyError:
        expected = None

    flat = read_flat(value)

    assert flat is None or flat == expected


@given(
    st.sampled_from(("ack", "reject", "nack")),
    st.lists(st.text(max_size=5), max_size=4),
    st.text(max_size=5),
)
def test_a_valid_settlement_is_read_in_one_step(op, refs, channel):
    value = json.dumps({"op": op, "refs": refs, "channel": channel}).encode()

    assert read_flat(value) == parse_command(read_json(value))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_command_or_none(value):
    assert read_flat(value) is None
