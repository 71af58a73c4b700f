"""A settlement decoded in one step equals the one that is read member by member."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from streaming.protocol.command_json import parse_command, read_settlement
from streaming.protocol.json_input import read_json
from topology.errors import InvalidTopologyError

names = st.text(max_size=5) | st.just("c" * 256) | st.just("é" * 128)
wrong = st.none() | st.integers() | st.booleans() | st.lists(st.integers(), max_size=2)
refs = st.lists(st.text(max_size=5), max_size=4)
documents = st.fixed_dictionaries(
    {"op": st.sampled_from(("ack", "reject", "nack", "get"))},
    optional={
        "refs": refs | wrong,
        "multiple": st.booleans() | wrong,
        "requeue": st.booleans() | wrong,
        "channel": names | wrong,
        "reply_id": names | wrong,
        "surplus": wrong,
    },
)


@given(documents)
@example({"op": "ack", "refs": ["c/1"], "channel": None})
@example({"op": "nack", "refs": [], "multiple": True, "requeue": True})
@example({"op": "reject", "refs": ["a"], "channel": "c" * 256})
def test_both_ways_of_reading_a_settlement_agree(document):
    value = json.dumps(document).encode()
    try:
        expected = parse_command(read_json(value))
    except InvalidTopologyError:
        expected = None

    settlement = read_settlement(value)

    if expected is None or document["op"] == "get":
        assert settlement is None
    else:
        assert settlement in {expected, None}


@given(st.sampled_from(("ack", "reject", "nack")), refs, names.filter(lambda name: len(name) < 6))
def test_a_valid_settlement_is_read_in_one_step(op, refs, channel):
    value = json.dumps({"op": op, "refs": refs, "channel": channel}).encode()

    assert read_settlement(value) == parse_command(read_json(value))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_settlement_or_none(value):
    assert read_settlement(value) is None
