"""Bodies are found in their original or compacted file, and never mistaken for others."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.ledger.errors import BodyMismatchError, BodyMissingError
from streaming.ledger.read.body_reader import BodyReader, Places
from streaming.ledger.read.table_files import IDLE_FILES, OPEN_FILES, ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.write.parquet_layout import ROW_GROUP_ROWS
from streaming.ledger.write.table_writer import TableWriter
from tests.unit.ledger.builders import QUERY, a_place, messages, publish


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def store(root, *tables):
    """Commit each table as its own batch; returns the paths of their files."""
    writer = TableWriter(root, "messages")
    paths = []
    for table in tables:
        partition = table["partition"][0].as_py()
        file = publish(root, "messages", table, partition=partition)
        writer.commit_batch(QUERY, table["batch_id"][0].as_py(), [file])
        paths.append(file.path)
    return paths


def joined(root):
    """Compact all files of the message store and remove the old ones."""
    place = root / "messages"
    files = small_files(TABLES["messages"], ActiveFiles(load_table(place)))
    done = compact(place, TABLES["messages"], files)
    assert done is not None
    for path in done.replaced:
        place.storage().delete(path)


def places(files, wanted):
    """`wanted`: (file code, row, partition, offset) of each message."""
    columns = np.array(wanted, np.int64).reshape(-1, 4)
    return Places(
        files, columns[:, 0], columns[:, 1], np.ones(len(columns)), columns[:, 2], columns[:, 3]
    )


def read(root, wanted, **settings_of_reader):
    reader = BodyReader(root, **settings_of_reader)
    try:
        return reader.read(wanted).to_pylist()
    finally:
        reader.close()


def bodies(*offsets):
    return [{"body": b"body %d" % offset} for offset in offsets]


def test_bodies_are_returned_in_the_requested_order(root):
    files = store(root, messages(range(10, 14)), messages(range(50, 53), batch_id=1, partition=2))

    found = read(root, places(files, [(1, 2, 2, 52), (0, 3, 0, 13), (1, 0, 2, 50), (0, 0, 0, 10)]))

    assert found == bodies(52, 13, 50, 10)


def test_a_message_can_be_requested_several_times(root):
    files = store(root, messages(range(3)))

    assert read(root, places(files, [(0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 0, 1)])) == bodies(1, 0, 1)


def test_other_columns_can_be_read_with_the_bodies(root):
    files = store(root, messages([7]))

    found = read(root, places(files, [(0, 0, 0, 7)]), columns=("routing_key", "origin", "offset"))

    origin = {"topic": "orders", "topic_number": None, "partition": None, "offset": 7}
    assert found == [
        {"routing_key": "order.1", "origin": {**origin, "timestamp": None}, "offset": 7}
    ]


def test_an_empty_request_has_an_empty_result(root):
    reader = BodyReader(root, columns=("body", "headers"))

    found = reader.read(places([], []))

    assert (found.num_rows, found.column_names) == (0, ["body", "headers"])


def test_a_body_that_was_erased_is_never_read_as_an_empty_one(root):
    rows = messages(range(3), body=lambda offset: b"" if offset == 1 else b"body")
    erased = pa.array([b"body", b"", None], pa.binary())
    store(
        root,
        rows.set_column(rows.schema.get_field_index("body"), rows.schema.field("body"), erased),
    )
    file = ActiveFiles(load_table(root / "messages")).paths[0]

    assert read(root, places([file], [(0, 0, 0, 0), (0, 1, 0, 1)])) == [
        {"body": b"body"},
        {"body": b""},
    ]
    with pytest.raises(BodyMissingError, match=r"was erased, first of .*offset 2\)"):
        read(root, places([file], [(0, 0, 0, 0), (0, 2, 0, 2)]))


def test_a_file_before_its_commit_is_read_like_any_other(root):
    file = publish(root, "messages", messages([3, 4]))

    assert read(root, places([file.path], [(0, 1, 0, 4)])) == bodies(4)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ((0, 1, 0, 7), r"row 1: .*offset 7\).*offset 6\)"),
        ((0, 1, 3, 6), r"row 1: .*partition 3, .*partition 0, "),
        ((0, 2, 0, 7), r"\b2 rows.* row 2\b"),
        ((0, -1, 0, 7), r"\b2 rows.* row -1\b"),
    ],
)
def test_a_place_with_another_message_is_an_error(root, wanted, named):
    files = store(root, messages([5, 6]))

    with pytest.raises(BodyMismatchError, match=named):
        read(root, places(files, [(0, 0, 0, 5), wanted]))


def test_after_compaction_messages_are_found_by_their_identity(root):
    files = store(
        root,
        messages(range(10, 14)),
        messages(range(10, 13), batch_id=1, partition=2, body=lambda offset: b"two %d" % offset),
        messages(range(14, 16), batch_id=2),
    )
    joined(root)

    found = read(
        root,
        places(files, [(2, 1, 0, 15), (1, 0, 2, 10), (0, 0, 0, 10), (0, 3, 0, 13), (1, 0, 2, 10)]),
    )

    two = {"body": b"two 10"}
    assert found == [*bodies(15), two, *bodies(10, 13), two]


def test_existing_and_removed_files_can_be_requested_together(root):
    old = store(root, messages(range(3)), messages(range(3, 6), batch_id=1))
    joined(root)
    new = store(root, messages(range(6, 9), batch_id=2))

    found = read(
        root, places([*old, *new], [(2, 1, 0, 7), (0, 1, 0, 1), (2, 0, 0, 6), (1, 2, 0, 5)])
    )

    assert found == bodies(7, 1, 6, 5)


def test_a_reader_with_a_loaded_table_notices_a_later_compaction(root):
    files = store(root, messages(range(3)), messages(range(3, 6), batch_id=1))
    joined(root)
    reader = BodyReader(root, cache_bytes=0)
    first = reader.read(places(files, [(0, 1, 0, 1)])).to_pylist()
    reader._groups.close()  # noqa: SLF001 - close the file, as after many others
    files += store(root, messages(range(6, 9), batch_id=2))
    joined(root)

    second = reader.read(places(files, [(2, 1, 0, 7), (0, 1, 0, 1)])).to_pylist()

    assert (first, second) == (bodies(1), bodies(7, 1))


def test_an_error_names_a_missing_message(root):
    files = store(root, messages([5, 6]), messages([8], batch_id=1))
    joined(root)

    with pytest.raises(BodyMissingError, match=r"1 messages .*partition 0, offset 7\)"):
        read(root, places(files, [(0, 0, 0, 5), (0, 1, 0, 7)]))


def test_decoded_row_groups_stay_within_the_memory_given(root):
    rows = 3 * ROW_GROUP_ROWS
    files = store(root, messages(range(rows), body=lambda _: b"x" * 100))
    group_bytes = ROW_GROUP_ROWS * 130
    reader = BodyReader(root, cache_bytes=2 * group_bytes)

    held = []
    for row in (0, ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS, 5):
        reader.read(places(files, [(0, row, 0, row)]))
        held.append(reader._groups.held_bytes)  # noqa: SLF001 - the bound is the behaviour

    assert all(0 < size <= 2 * group_bytes for size in held)
    reader.close()
    assert reader._groups.held_bytes == 0  # noqa: SLF001


def test_more_files_than_may_be_open_are_read_in_turn(root):
    count = OPEN_FILES + 5
    files = [
        publish(root, "messages", messages([offset], batch_id=offset)).path
        for offset in range(count)
    ]
    wanted = [(offset, 0, 0, offset) for offset in range(count)]
    reader = BodyReader(root)

    found = [reader.read(places(files, part)).to_pylist() for part in (wanted, wanted[::-1])]

    assert found == [bodies(*range(count)), bodies(*reversed(range(count)))]


def test_few_files_stay_open_between_two_uses_and_one_that_is_gone_has_no_rows(root):
    files = [
        publish(root, "messages", messages([offset], batch_id=offset)).path
        for offset in range(IDLE_FILES + 3)
    ]
    reader = BodyReader(root)
    starts = [reader.group_starts(path) for path in files]
    reader.forget()
    for path in files:
        (root.local_path() / "messages" / path).unlink()

    found = [reader.group(path, 0) for path in files]

    assert starts == [[0, 1]] * len(files)
    assert [table is None for table in found] == [True] * 3 + [False] * IDLE_FILES
    reader.close()


messages_asked = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=12)


@pytest.fixture(scope="module")
def two_stores(tmp_path_factory):
    """Three partitions of five messages, as written or compacted."""
    stores = []
    for name in ("plain", "joined"):
        root = a_place(tmp_path_factory.mktemp(name))
        files = store(
            root,
            *(
                messages(
                    range(100 * part, 100 * part + 5),
                    batch_id=part,
                    partition=part,
                )
                for part in range(3)
            ),
        )
        stores.append((root, files))
    joined(stores[1][0])
    return stores


@settings(max_examples=30)
@given(asked=messages_asked)
def test_any_request_is_answered_before_and_after_compaction(two_stores, asked):
    wanted = [(part, row, part, 100 * part + row) for part, row in asked]
    expected = [b"body %d" % (100 * part + row) for part, row in asked]

    for root, files in two_stores:
        assert [row["body"] for row in read(root, places(files, wanted))] == expected
