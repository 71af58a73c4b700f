import json
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode

from streaming.amqp.errors import AmqpError
from streaming.amqp.tables import (
    read_entries,
    read_table,
    rewrite_table,
    write_table,
    write_value,
)
from topology.values import MAX_DEPTH, Timestamp, table_from_json, table_to_json

NAMES = st.text(max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.binary(max_size=30)
    | st.builds(Timestamp, st.integers(0, 2**40)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=6)


@given(TABLES)
def test_a_table_survives_the_wire(table):
    data = write_table(table)

    assert read_table(data) == (table, len(data))


@given(st.dictionaries(NAMES, st.integers(-(2**63), 2**63 - 1) | st.text(max_size=30), max_size=6))
def test_another_library_reads_the_same(table):
    assert decode.field_table(write_table(table))[1] == table


@given(st.binary(max_size=60))
def test_bytes_that_are_no_table_are_refused_with_a_syntax_error(data):
    refused = None
    try:
        read_table(data)
    except AmqpError as failure:
        refused = failure

    assert refused is None or refused.code == 502


@given(TABLES, st.data())
def test_a_table_that_is_cut_is_refused(table, data):
    whole = write_table(table)
    cut = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(AmqpError, match="502"):
        read_table(whole[:cut])


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xfd", -3),
        (b"i\xff\xff\xff\xfd", 4294967293),
        (b"l" + b"\xff" * 8, -1),
        (b"L" + b"\xff" * 8, -1),
        (b"f?\x80\0\0", 1.0),
        (b"D\2\0\0\0\x96", Decimal("1.50")),
        (b"V", None),
    ],
)
def test_every_type_of_a_client_is_understood(wire, value):
    entry = b"\1a" + wire

    assert read_table(len(entry).to_bytes(4) + entry)[0] == {"a": value}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Timestamp(-1), "-1"),
        (Decimal("-1.5"), "-1.5"),
        (Decimal("1E-300"), "1E-300"),
        (Decimal("1E+1000000"), "1E+1000000"),
        (Decimal("1234567890.5"), "1234567890.5"),
        (Decimal(4294967296), "4294967296"),
        (Decimal("4.2E+3"), Decimal(4200)),
    ],
)
def test_a_value_that_amqp_has_no_room_for_is_written_as_text(value, read):
    assert read_table(write_table({"a": value}))[0] == {"a": read}


def test_the_name_of_an_entry_is_cut_to_its_room():
    assert read_table(write_table({"€" * 90: 1}))[0] == {"€" * 85: 1}


def test_nesting_is_limited():
    data = b"F\0\0\0\0"
    for _ in range(100):
        entry = b"\1a" + data
        data = b"F" + len(entry).to_bytes(4) + entry

    with pytest.raises(AmqpError, match="nested more than 64 levels"):
        read_table(data[1:])


def test_entries_that_stay_keep_their_integer_width():
    entries_of_client = b"\1aI\0\0\0\5" + b"\1bS\0\0\0\1x"
    data = len(entries_of_client).to_bytes(4) + entries_of_client
    original, _end = read_table(data)
    entries, _end = read_entries(data, 0)

    rewritten = rewrite_table({**original, "c": 7}, data, entries, original)

    assert rewritten[4:] == entries_of_client + b"\1c" + write_value(7)


def test_the_deepest_table_that_is_read_has_a_form_in_json():
    value = b"V"
    for _ in range(MAX_DEPTH - 1):
        inner = b"\1a" + value
        value = b"F" + len(inner).to_bytes(4) + inner
    entry = b"\1a" + value

    table, _end = read_table(len(entry).to_bytes(4) + entry)

    assert table_from_json(table_to_json(table)) == table


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        (b"\1aS\0\0\0\2\xff\xfe", {"a": b"\xff\xfe"}),
        (b"\2\xff\xfeV", {"\\xff\\xfe": None}),
        (b"\1ad" + struct.pack(">d", math.nan), {"a": "nan"}),
        (b"\1af" + struct.pack(">f", -math.inf), {"a": "-inf"}),
        (b"\1aT" + b"\xff" * 8, {"a": str(2**64 - 1)}),
        (b"\1aF\0\0\0\x08\6$bytesV", {"a": {"$$bytes": None}}),
    ],
    ids=["text", "name", "nan", "infinity", "time", "special"],
)
def test_what_has_no_form_in_json_is_read_as_its_nearest_and_comes_out_as_it_came(entry, read):
    data = len(entry).to_bytes(4) + entry
    table, _end = read_table(data)
    entries, _end = read_entries(data, 0)

    assert table == read
    assert table_from_json(json.loads(json.dumps(table_to_json(table)))) == read
    assert rewrite_table(table, data, entries, table) == data
