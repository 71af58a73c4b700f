"""A data file has exactly the rows of its batch and task, however often it is written."""

import os
import pickle

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.ledger.errors import DataFileConflictError
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.data_file import (
    DRIVER,
    ColumnRange,
    DataFile,
    DataFileName,
    coded_columns,
    fingerprint,
    source_of_partition,
    source_of_shard,
    write_data_file,
)
from streaming.ledger.write.parquet_layout import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from streaming.storage.local import LocalStorage
from tests.unit.ledger.builders import QUERY, dead_letters, events, messages

MESSAGES = TABLES["messages"]
NAME = DataFileName(QUERY, 7, "messages", source_of_partition(1, 3), 4711)


def test_the_description_of_a_data_file_has_what_the_driver_needs(tmp_path):
    table = messages(range(10, 14), batch_id=7, partition=3)

    written = write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, table)

    path = "0f8d2c1e-query.000000000007.messages.t1-p3.00000000000000004711.parquet"
    assert written == DataFile(
        table="messages",
        path=path,
        size=(tmp_path / path).stat().st_size,
        rows=4,
        fingerprint=fingerprint(table, coded_columns(table)),
        ranges={
            "batch_id": ColumnRange(7, 7, 0),
            "vhost": ColumnRange("/", "/", 0),
            "lane": ColumnRange(0, 0, 0),
            "topic_number": ColumnRange(1, 1, 0),
            "partition": ColumnRange(3, 3, 0),
            "offset": ColumnRange(10, 13, 0),
        },
    )
    assert pickle.loads(pickle.dumps(written)) == written  # noqa: S301 - pickled by this test
    assert msgspec.json.decode(msgspec.json.encode(written), type=DataFile) == written


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("messages", messages([5, 2])),
        ("events", events([1, 2])),
        ("dead_letters", dead_letters([1])),
    ],
)
def test_a_file_has_the_given_rows(tmp_path, name, table):
    written = write_data_file(
        LocalStorage(tmp_path), TABLES[name], DataFileName(QUERY, 0, name, DRIVER), table
    )

    assert written is not None
    read = pq.read_table(tmp_path / written.path)
    assert read.to_pylist() == table.to_pylist()
    assert read.schema.types == [field.type for field in TABLES[name].schema]


def test_no_rows_make_no_file(tmp_path):
    written = write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, messages([]))

    assert (written, list(tmp_path.iterdir())) == (None, [])


def test_writing_the_same_rows_again_keeps_the_file(tmp_path):
    storage = LocalStorage(tmp_path)
    first = write_data_file(storage, MESSAGES, NAME, messages(range(5)))
    (file,) = tmp_path.iterdir()
    before = file.stat()
    content = file.read_bytes()
    os.utime(file, (1, 1))

    second = write_data_file(storage, MESSAGES, NAME, messages(range(5)))

    assert first == second
    assert (file.stat().st_ino, file.read_bytes()) == (before.st_ino, content)
    assert file.stat().st_mtime >= before.st_mtime  # its age restarts, for clean-ups by age
    assert list(tmp_path.iterdir()) == [file]


def other_rows(path):
    pq.write_table(pq.read_table(path).slice(0, 4), path)


def other_body(path):
    table = pq.read_table(path)
    index = table.schema.get_field_index("body")
    changed = table.set_column(index, "body", pa.array([b"tampered"] * 5, pa.binary()))
    pq.write_table(changed, path)


def other_writer(path):
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


def flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 8] ^= 1
    path.write_bytes(content)


def other_columns(path):
    pq.write_table(pq.read_table(path).drop_columns(["body"]), path)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-9])


def emptied(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (other_rows, "4 rows .* 5"),
        (other_body, "fingerprint [0-9a-f]{64}, not [0-9a-f]{64}"),
        (other_writer, "fingerprint none, not [0-9a-f]{64}"),
        (flipped_bit, "fingerprint|Parquet"),
        (other_columns, "columns"),
        (cut_short, "Parquet"),
        (emptied, "Parquet"),
    ],
)
def test_a_file_with_other_contents_is_refused_and_kept(tmp_path, tamper, named):
    storage = LocalStorage(tmp_path)
    write_data_file(storage, MESSAGES, NAME, messages(range(5)))
    (file,) = tmp_path.iterdir()
    tamper(file)
    tampered = file.read_bytes()

    with pytest.raises(DataFileConflictError, match=named) as refusal:
        write_data_file(storage, MESSAGES, NAME, messages(range(5)))

    assert f"messages/{NAME}" in str(refusal.value)
    assert file.read_bytes() == tampered


def test_a_file_of_an_earlier_version_is_kept(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    with monkeypatch.context() as before:
        before.setattr("streaming.ledger.write.data_file.coded_columns", lambda _table: [])
        written = write_data_file(storage, MESSAGES, NAME, messages(range(5)))
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()

    again = write_data_file(storage, MESSAGES, NAME, messages(range(5)))

    assert written is not None
    assert again is not None
    assert (again.rows, again.ranges) == (written.rows, written.ranges)
    assert file.read_bytes() == content
    with pytest.raises(DataFileConflictError, match="fingerprint"):
        write_data_file(storage, MESSAGES, NAME, messages(range(5), body=lambda _: b"other"))


def test_a_replay_with_other_rows_is_refused(tmp_path):
    storage = LocalStorage(tmp_path)
    write_data_file(storage, MESSAGES, NAME, messages(range(5)))

    with pytest.raises(DataFileConflictError, match="fingerprint"):
        write_data_file(storage, MESSAGES, NAME, messages(range(5), body=lambda _: b"other"))


class VanishingStorage(LocalStorage):
    def size(self, path):
        return None


class VacuumedStorage(LocalStorage):
    """Another driver's vacuum deletes the first file, before or after it is verified."""

    at: str | None

    def __init__(self, root, *, at):
        super().__init__(root)
        object.__setattr__(self, "at", at)

    def vacuum(self, path, *, at):
        if self.at == at:
            object.__setattr__(self, "at", None)
            self.delete(path)

    def open(self, path):
        self.vacuum(path, at="open")
        return super().open(path)

    def size(self, path):
        self.vacuum(path, at="size")
        return super().size(path)


@pytest.mark.parametrize("at", ["open", "size"])
def test_a_file_vacuumed_by_another_driver_is_rewritten(tmp_path, at):
    first = write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, messages(range(5)))

    again = write_data_file(VacuumedStorage(tmp_path, at=at), MESSAGES, NAME, messages(range(5)))

    assert first is not None
    assert again == first
    assert (tmp_path / str(NAME)).stat().st_size == first.size


def test_a_file_that_disappears_after_writing_is_reported(tmp_path):
    with pytest.raises(DataFileConflictError, match=r"messages/.*\.parquet"):
        write_data_file(VanishingStorage(tmp_path), MESSAGES, NAME, messages([1]))


def test_rows_of_another_table_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not the columns of messages"):
        write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, events([1]))


def test_a_null_in_a_required_column_is_refused(tmp_path):
    table = messages([1, 2])
    broken = table.set_column(
        table.schema.get_field_index("offset"),
        table.schema.field("offset"),
        pa.array([1, None], pa.int64()),
    )

    with pytest.raises(ValueError, match=r"messages.offset is null in 1 rows"):
        write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, broken)


def group_sizes(folder):
    (path,) = folder.iterdir()
    footer = pq.read_metadata(path)
    return [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]


def test_row_groups_have_a_bounded_number_of_rows(tmp_path):
    table = messages(range(2 * ROW_GROUP_ROWS + 1), body=lambda _: b"x")

    write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, table)

    assert group_sizes(tmp_path) == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 1]


def test_row_groups_of_large_bodies_have_a_bounded_size(tmp_path):
    sizes = {0: 10, 1: ROW_GROUP_BYTES - 10, 2: 1, 3: 2 * ROW_GROUP_BYTES, 4: 5, 5: 5}
    table = messages(range(6), body=lambda offset: bytes(sizes[offset]))

    write_data_file(LocalStorage(tmp_path), MESSAGES, NAME, table)

    assert group_sizes(tmp_path) == [2, 1, 1, 2]


def test_a_column_without_any_value_has_no_bounds(tmp_path):
    table = events([1, 2])
    index = table.schema.get_field_index("lane")
    without = table.set_column(index, table.schema.field("lane").name, pa.nulls(2, pa.int32()))

    written = write_data_file(
        LocalStorage(tmp_path), TABLES["events"], DataFileName(QUERY, 0, "events", DRIVER), without
    )

    assert written is not None
    assert written.ranges["lane"] == ColumnRange(None, None, 2)
    assert written.ranges["at"] == ColumnRange(1500, 3000, 0)
    assert written.ranges["kind"] == ColumnRange("died", "enqueued", 0)


@given(
    st.builds(
        DataFileName,
        st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True),
        st.integers(0, 10**19 - 1),
        st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True),
        st.one_of(
            st.builds(source_of_partition, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)),
            st.builds(source_of_shard, st.integers(0, 2**31 - 1)),
            st.just(DRIVER),
        ),
        st.integers(0, 2**63 - 1),
    )
)
def test_a_file_name_identifies_its_batch_and_source(name):
    assert DataFileName.parse(str(name)) == name


@pytest.mark.parametrize(
    "name", ["part-00000-abc.parquet", "joined-12.parquet", "", f"{NAME}.crc", f".{NAME}"]
)
def test_other_file_names_are_not_parsed(name):
    assert DataFileName.parse(name) is None


@pytest.mark.parametrize(
    "name",
    [
        DataFileName("a/b", 1, "events", DRIVER),
        DataFileName("", 1, "events", DRIVER),
        DataFileName("q", -1, "events", DRIVER),
        DataFileName("q", 1, "Events", DRIVER),
        DataFileName("q", 1, "events", DRIVER, -5),
        DataFileName("q", 1, "events", "a.b"),
    ],
)
def test_invalid_parts_of_a_file_name_are_refused(name):
    with pytest.raises(ValueError, match="DataFileName"):
        str(name)
