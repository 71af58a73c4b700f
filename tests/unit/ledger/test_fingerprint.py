"""The fingerprint depends on all rows and on nothing else."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.ledger.schema.schemas import KAFKA_HEADERS, ORIGIN
from streaming.ledger.write.data_file import fingerprint

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("flag", pa.bool_()),
        pa.field("text", pa.string()),
        pa.field("body", pa.binary()),
        pa.field("origin", ORIGIN),
        pa.field("kafka_headers", KAFKA_HEADERS),
    ]
)
row = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-3, 3),
        "flag": st.none() | st.booleans(),
        "text": st.none() | st.text("ab", max_size=2),
        "body": st.none() | st.binary(max_size=2),
        "origin": st.none()
        | st.fixed_dictionaries(
            {
                "topic": st.none() | st.text("ab", max_size=1),
                "topic_number": st.none() | st.integers(0, 1),
                "partition": st.none(),
                "offset": st.none() | st.integers(0, 1),
                "timestamp": st.none() | st.datetimes(timezones=st.just(None)).map(lambda _: None),
            }
        ),
        "kafka_headers": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {"key": st.none() | st.text("ab", max_size=1), "value": st.none() | st.just(b"v")}
            ),
            max_size=2,
        ),
    }
)
rows = st.lists(row, max_size=6)


def a_table(some_rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(some_rows, schema=SCHEMA)


@given(rows, rows)
def test_two_tables_have_one_fingerprint_exactly_when_they_have_the_same_rows(one, other):
    same = a_table(one).to_pylist() == a_table(other).to_pylist()

    assert (fingerprint(a_table(one)) == fingerprint(a_table(other))) == same


@given(rows, st.integers(0, 6), st.integers(0, 3))
def test_layout_does_not_matter(some_rows, cut, before):
    table = a_table(some_rows)
    surrounded = a_table([*some_rows[:1] * before, *some_rows, *some_rows[:1]])
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    sliced = surrounded.slice(before if some_rows else 0, len(some_rows))
    coded = table.set_column(2, "text", table["text"].dictionary_encode())

    assert {fingerprint(chunked), fingerprint(sliced), fingerprint(coded)} == {fingerprint(table)}


@given(rows, rows, st.integers(0, 6), st.lists(st.sampled_from(["a", "b", ""]), max_size=3))
def test_coded_columns_have_one_fingerprint_exactly_when_they_have_the_same_values(
    one, other, cut, unused
):
    def coded(some_rows):
        return a_table(some_rows).select(["text"])

    def in_chunks(table):
        texts = table["text"].to_pylist()
        dictionary = pa.array([*unused, *(text or "" for text in texts)], pa.string())
        codes = [None if one is None else len(unused) + n for n, one in enumerate(texts)]
        codes = pa.array(codes, pa.int32())
        chunk = pa.DictionaryArray.from_arrays(codes, dictionary)
        parts = [chunk.slice(0, cut), chunk.slice(cut)]
        return pa.table({"text": pa.chunked_array(parts, type=chunk.type)})

    plain, same = fingerprint(coded(one), ["text"]), coded(one).equals(coded(other))

    assert fingerprint(in_chunks(coded(one)), ["text"]) == plain
    assert (fingerprint(in_chunks(coded(other)), ["text"]) == plain) == same


def test_the_value_below_a_null_does_not_matter():
    validity = pa.py_buffer(b"\x01")
    values = [pa.array(numbers, pa.int64()).buffers()[1] for numbers in ([1, 2], [1, 3])]
    arrays = [pa.Array.from_buffers(pa.int64(), 2, [validity, value]) for value in values]

    one, other = (fingerprint(pa.table({"number": array})) for array in arrays)

    assert one == other


def test_names_and_types_of_columns_matter():
    fingerprints = {
        fingerprint(pa.table({"a": pa.array([1], pa.int64())})),
        fingerprint(pa.table({"b": pa.array([1], pa.int64())})),
        fingerprint(pa.table({"a": pa.array([1], pa.int32())})),
        fingerprint(pa.table({"a": pa.array(["1"])})),
        fingerprint(pa.table({"a": pa.array([b"1"])})),
    }

    assert len(fingerprints) == 5
