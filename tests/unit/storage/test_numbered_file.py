"""A file is replaced on a condition: of several writers of one version, one succeeds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streaming.storage.location import Location
from streaming.storage.numbered_file import KEPT, NumberedFile
from streaming.storage.port import Storage
from tests.fixtures.object_store import object_store, shared_place

__all__ = ["object_store", "shared_place"]


@pytest.fixture(params=["local", "remote"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return Location(str(tmp_path)).storage()
    shared: Location = request.getfixturevalue("shared_place")
    return shared.storage()


def test_there_is_one_file_and_a_version_that_was_succeeded_is_refused(storage):
    file = NumberedFile(storage, "a")
    assert (file.read(), file.replace(b"1", 0), file.replace(b"other", 0)) == (None, 1, None)
    assert file.read() == (b"1", 1)

    assert file.replace(b"2", 1) == 2
    assert file.replace(b"late", 1) is None
    assert file.replace(b"3", 2) == 3

    assert file.read() == (b"3", 3)
    for number in range(3, 9):
        assert file.replace(b"more", number) == number + 1
    assert file.replace(b"very late: the file of this number is gone", 1) is None
    assert file.replace(b"the same", 0) is None
    kept = [f"a.{number}" for number in range(10 - KEPT, 10)]
    assert sorted(each.name for each in storage.files()) == kept


def test_a_version_that_was_removed_by_hand_is_not_replaced(storage):
    file = NumberedFile(storage, "a")
    file.replace(b"1", 0)
    storage.delete("a.1")

    assert file.replace(b"2", 1) is None

    assert list(storage.files()) == []


def test_of_many_who_add_to_it_at_once_none_is_lost(tmp_path):
    def add(number: int) -> None:
        file = NumberedFile(Location(str(tmp_path)).storage(), "a")
        while True:
            content, version = file.read() or (b"", 0)
            if file.replace(content + bytes([number]), version) is not None:
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(200)))

    found = NumberedFile(Location(str(tmp_path)).storage(), "a").read()
    assert found is not None
    assert set(found[0]) == set(range(200))  # some twice: replaced before it was told
