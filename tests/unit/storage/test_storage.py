"""A file appears completely or not at all, and is never replaced, in any storage."""

import io
import pickle

import pytest

from streaming.storage.local import LocalStorage
from streaming.storage.location import Location
from streaming.storage.port import StoreError
from tests.fixtures.object_store import object_store, shared_place

__all__ = ["object_store", "shared_place"]


@pytest.fixture(params=["local", "remote"])
def storage_at(request, tmp_path):
    """Opens a folder, on a local disk and in an object store."""
    if request.param == "local":
        root = Location(str(tmp_path))
    else:
        root = request.getfixturevalue("shared_place")
    return lambda folder: (root / folder).storage()


@pytest.fixture
def storage(storage_at):
    return storage_at("table")


def writing(content):
    return lambda file: file.write(content)


def results_of_two_writers(storage):
    """What each of two is told who create a file at once, the one who ends first before."""
    results = []

    def overtaken(file):
        results.append(storage.create("a.parquet", writing(b"second")))
        file.write(b"first")

    results.append(storage.create("a.parquet", overtaken))
    return results


def test_a_read_file_equals_the_written_one(storage):
    created = storage.create("log/a.json", writing(b"first"))

    with storage.open("log/a.json") as file:
        assert (created, storage.size("log/a.json"), file.read()) == (True, 5, b"first")


def test_an_existing_file_is_not_overwritten(storage):
    storage.create("a.parquet", writing(b"first"))

    created = storage.create("a.parquet", writing(b"second"))

    with storage.open("a.parquet") as file:
        assert (created, file.read()) == (False, b"first")


def test_a_replaced_or_uploaded_file_has_the_new_content(storage):
    storage.replace("log/a.json", b"first")
    storage.replace("log/a.json", b"second")
    storage.upload("log/b.json", io.BytesIO(b"third"))
    storage.upload("log/b.json", io.BytesIO(b"fourth"))

    assert [storage.read(f"log/{name}.json") for name in "abc"] == [b"second", b"fourth", None]
    assert sorted(file.name for file in storage.files("log")) == ["a.json", "b.json"]


def test_a_moved_file_keeps_its_name_below_the_other_place(storage_at):
    before, after = storage_at("before"), storage_at("after")
    before.replace("log/a.json", b"first")

    before.move("log/a.json", after)

    assert (before.all_names(), after.read("log/a.json")) == ([], b"first")


def test_a_missing_file_has_no_size_and_cannot_be_opened(storage):
    assert storage.size("a.parquet") is None
    with pytest.raises(FileNotFoundError):
        storage.open("a.parquet")


def test_deleting_a_deleted_file_is_no_error(storage):
    storage.create("a.parquet", writing(b"first"))

    storage.delete("a.parquet")
    storage.delete("a.parquet")

    assert list(storage.files()) == []


def test_files_are_listed_without_folders(storage):
    storage.create("a.parquet", writing(b"12345"))
    storage.create("_delta_log/0.json", writing(b"{}"))

    assert [(file.name, file.size) for file in storage.files()] == [("a.parquet", 5)]
    assert [file.name for file in storage.files("_delta_log")] == ["0.json"]
    assert sorted(storage.all_names()) == ["_delta_log/0.json", "a.parquet"]
    assert (storage.has_any("_delta_log"), storage.has_any("none")) == (True, False)


def test_a_missing_folder_has_no_files(storage):
    assert list(storage.files()) == []


def test_a_failed_writer_leaves_no_file(storage):
    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        storage.create("a.parquet", fail)

    assert list(storage.files()) == []


def test_the_second_of_two_concurrent_writers_finds_the_file(tmp_path):
    storage = LocalStorage(tmp_path, durable=False)
    results = results_of_two_writers(storage)

    with storage.open("a.parquet") as file:
        assert (results, file.read()) == ([True, False], b"second")
    assert [file.name for file in storage.files()] == ["a.parquet"]


def test_an_open_file_stays_readable_when_it_is_deleted(tmp_path):
    storage = LocalStorage(tmp_path)
    storage.create("a.parquet", writing(b"first"))

    with storage.open("a.parquet") as file:
        storage.delete("a.parquet")

        assert file.read() == b"first"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("tables", "tables"),
        ("/data/tables", "/data/tables"),
        ("file:///data/my%20tables", "/data/my tables"),
    ],
)
def test_paths_and_file_urls_are_folders(url, path):
    assert str(Location(url).local_path()) == path


def test_the_second_of_two_concurrent_writers_of_an_object_finds_it(shared_place):
    storage = shared_place.storage()
    results = results_of_two_writers(storage)

    with storage.open("a.parquet") as file:
        assert (results, file.read()) == ([True, False], b"second")


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3_000_000])
def test_any_part_of_an_object_can_be_read(shared_place, size):
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    storage = shared_place.storage()
    storage.create("a", writing(content))

    with storage.open("a") as file:
        file.seek(0, io.SEEK_END)
        assert file.tell() == size
        for start, count in [(0, 10), (size // 2, 2_000_000), (max(0, size - 70_000), 100_000)]:
            file.seek(start)
            assert file.read(count) == content[start : start + count]


def test_a_small_object_takes_one_request(shared_place, object_store):
    storage = shared_place.storage()
    storage.create("a", writing(b"12345"))
    before = object_store.counts()

    with storage.open("a") as file:
        assert file.read() == b"12345"

    after = object_store.counts()
    assert after["GET"] - before["GET"] == 1
    assert {name for name in after if after[name] != before[name]} == {"GET", "bytes_out"}


def test_options_that_only_deltalake_knows_are_left_out(object_store):
    options = {**object_store.options, "AWS_S3_ALLOW_UNSAFE_RENAME": "true", "timeout": "30s"}

    assert Location("s3a://dlx-tests/new", options).storage().size("a") is None


def test_a_missing_bucket_is_named_without_credentials(object_store):
    storage = Location("s3://missing/tables", object_store.options).storage()

    with pytest.raises(StoreError, match=r"^s3://missing/tables/a: .*NoSuchBucket") as caught:
        storage.create("a", writing(b""))

    assert object_store.options["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_the_repr_of_a_location_has_no_secrets():
    place = Location("s3://bucket/tables", {"AWS_SECRET_ACCESS_KEY": "password"})

    assert "password" not in repr(place)
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - pickled by this test
