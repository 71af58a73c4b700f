"""A file is replaced on a condition: of several writers of one version, one succeeds."""

from pathlib import Path

import pytest

from streaming.storage.location import Location
from streaming.storage.numbered_file import NumberedFile
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
    assert file.replace(b"very late: the file of this number is gone", 1) is None

    assert file.read() == (b"3", 3)
    assert [each.name for each in storage.files()] == ["a.3"]


def test_a_version_that_was_removed_by_hand_is_not_replaced(storage):
    file = NumberedFile(storage, "a")
    file.replace(b"1", 0)
    storage.delete("a.1")

    assert file.replace(b"2", 1) is None

    assert list(storage.files()) == []
