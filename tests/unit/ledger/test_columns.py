"""Columns collected by a batch give the same table as rows."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.ledger.write.arrow_columns import Coded, Constant, Lists, build_table

PAIR = pa.struct([pa.field("name", pa.string()), pa.field("size", pa.int64())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("vhost", pa.string()),
        pa.field("pair", PAIR),
        pa.field("keys", pa.list_(pa.field("element", pa.string()))),
        pa.field("pairs", pa.list_(pa.field("element", PAIR))),
    ]
)


def test_every_form_of_a_column_has_the_same_rows():
    table = build_table(
        SCHEMA,
        {
            "id": [1, 2, 3],
            "at": np.array([0, 1_500_000, 3_000_000]),
            "vhost": Constant("/"),
            "pair.name": Coded([0, -1, 0], ["a"]),
            "pair.size": [10, None, 30],
            "keys": Coded([1, None, 0], [["x"], ["x", "y"]]),
            "pairs": Lists(
                [0, 2, 2, 3],
                {"name": ["p", "q", "r"], "size": Constant(7)},
                null=[False, True, False],
            ),
        },
        3,
    )

    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert table.to_pylist() == [
        {
            "id": 1,
            "at": epoch,
            "vhost": "/",
            "pair": {"name": "a", "size": 10},
            "keys": ["x", "y"],
            "pairs": [{"name": "p", "size": 7}, {"name": "q", "size": 7}],
        },
        {
            "id": 2,
            "at": epoch + dt.timedelta(seconds=1.5),
            "vhost": "/",
            "pair": None,
            "keys": None,
            "pairs": None,
        },
        {
            "id": 3,
            "at": epoch + dt.timedelta(seconds=3),
            "vhost": "/",
            "pair": {"name": "a", "size": 30},
            "keys": ["x"],
            "pairs": [{"name": "r", "size": 7}],
        },
    ]


def test_an_omitted_column_is_null():
    table = build_table(SCHEMA, {"id": [5]}, 1)

    assert table.to_pylist() == [
        {"id": 5, "at": None, "vhost": None, "pair": None, "keys": None, "pairs": None}
    ]


def test_no_rows_make_an_empty_table_with_every_column():
    table = build_table(SCHEMA, {"id": [], "vhost": Constant("/"), "pair.size": []}, 0)

    assert (table.num_rows, table.schema.names) == (0, SCHEMA.names)


def test_a_constant_that_is_null_or_nested_is_so_in_every_row():
    columns = {"id": Constant(1), "vhost": Constant(None), "keys": Constant(["a"])}

    table = build_table(SCHEMA, columns, 2)

    assert (
        table.select(["id", "vhost", "keys"]).to_pylist()
        == [{"id": 1, "vhost": None, "keys": ["a"]}] * 2
    )


def test_arrow_arrays_are_used_unchanged_or_cast():
    as_is = pa.array([1, 2], pa.int64())
    chunked = pa.chunked_array([["a"], ["b"]], pa.large_string())

    table = build_table(SCHEMA, {"id": as_is, "vhost": chunked}, 2)

    assert table.select(["id", "vhost"]).to_pylist() == [
        {"id": 1, "vhost": "a"},
        {"id": 2, "vhost": "b"},
    ]
    assert table["vhost"].type == pa.string()


def test_lists_of_plain_values_are_cut_at_their_offsets():
    table = build_table(SCHEMA, {"id": [1, 2], "keys": Lists([0, 0, 2], ["a", "b"])}, 2)

    assert table["keys"].to_pylist() == [[], ["a", "b"]]


def test_codes_may_be_arrays_of_any_integer_type():
    codes = np.array([1, 0, -1], np.int8)

    table = build_table(SCHEMA, {"id": [1, 2, 3], "vhost": Coded(codes, pa.array(["a", "b"]))}, 3)

    assert table["vhost"].to_pylist() == ["b", "a", None]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"vhots": Constant("/")}, r"no column 'vhots' \(did you mean 'vhost'\?\)"),
        ({"pair.nam": Constant("/")}, r"no column 'pair.nam' \(did you mean 'name'\?\)"),
        ({"id": [1, 2]}, "column 'id' has 2 rows, not 1"),
        ({"pair.size": [1, 2]}, "column 'pair.size' has 2 rows, not 1"),
    ],
)
def test_an_error_names_the_wrong_column(columns, words):
    with pytest.raises(ValueError, match=words):
        build_table(SCHEMA, columns, 1)


def test_a_number_that_does_not_fit_is_refused():
    narrow = pa.schema([pa.field("lane", pa.int32())])

    with pytest.raises(pa.ArrowInvalid):
        build_table(narrow, {"lane": [2**31]}, 1)


texts = st.none() | st.text(max_size=3)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
pairs = st.fixed_dictionaries({"name": texts, "size": numbers})
rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "vhost": texts,
            "pair": pairs,
            "keys": st.none() | st.lists(texts, max_size=3),
            "pairs": st.none() | st.lists(pairs, max_size=3),
        }
    ),
    max_size=8,
)


@given(rows)
def test_columns_and_rows_make_the_same_table(given_rows):
    keys = [row["keys"] or [] for row in given_rows]
    nested = [row["pairs"] or [] for row in given_rows]
    flat = [pair for part in nested for pair in part]

    table = build_table(
        SCHEMA,
        {
            "id": [row["id"] for row in given_rows],
            "vhost": [row["vhost"] for row in given_rows],
            "pair.name": [row["pair"]["name"] for row in given_rows],
            "pair.size": [row["pair"]["size"] for row in given_rows],
            "keys": Lists(
                np.cumsum([0, *map(len, keys)]),
                [key for part in keys for key in part],
                null=[row["keys"] is None for row in given_rows],
            ),
            "pairs": Lists(
                np.cumsum([0, *map(len, nested)]),
                {"name": [pair["name"] for pair in flat], "size": [pair["size"] for pair in flat]},
                null=[row["pairs"] is None for row in given_rows],
            ),
        },
        len(given_rows),
    )

    empty = {"name": None, "size": None}
    assert table.to_pylist() == [
        {**row, "at": None, "pair": None if row["pair"] == empty else row["pair"]}
        for row in given_rows
    ]
