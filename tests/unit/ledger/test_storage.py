"""A file appears completely or not at all, and is never replaced, in any storage."""

import pickle

import pytest
from pyarrow import fs

from streaming.ledger.storage import LocalStorage, Place, RemoteStorage


@pytest.fixture(params=["local", "remote"])
def storage(request, tmp_path):
    if request.param == "local":
        return LocalStorage(tmp_path / "table")
    return RemoteStorage(fs.LocalFileSystem(), str(tmp_path / "table"))


def writing(content):
    return lambda file: file.write(content)


def test_a_read_file_equals_the_written_one(storage):
    created = storage.create("log/a.json", writing(b"first"))

    with storage.open("log/a.json") as file:
        assert (created, storage.size("log/a.json"), file.read()) == (True, 5, b"first")


def test_an_existing_file_is_not_overwritten(storage):
    storage.create("a.parquet", writing(b"first"))

    created = storage.create("a.parquet", writing(b"second"))

    with storage.open("a.parquet") as file:
        assert (created, file.read()) == (False, b"first")


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
    results = []

    def overtaken(file):
        results.append(storage.create("a.parquet", writing(b"second")))
        file.write(b"first")

    results.append(storage.create("a.parquet", overtaken))

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
    assert str(Place(url).local_path()) == path


def test_a_place_below_an_s3_url_is_an_s3_prefix_with_deltalakes_options():
    options = {
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "password",
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": "127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
    }

    storage = Place("s3://bucket/tables/", options).below("events").storage()

    assert isinstance(storage, RemoteStorage)
    assert (storage.root, storage.file_system.type_name) == ("bucket/tables/events", "s3")
    assert storage.file_system.region == "eu-central-1"


def test_the_repr_of_a_location_has_no_secrets():
    place = Place("s3://bucket/tables", {"AWS_SECRET_ACCESS_KEY": "password"})

    assert "password" not in repr(place)
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - pickled by this test
