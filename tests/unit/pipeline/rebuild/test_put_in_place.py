"""A new checkpoint takes the place of the old one, in a folder and in shared storage."""

from pathlib import Path

import pytest

from streaming.pipeline.checkpoint.lease import CheckpointLease
from streaming.pipeline.rebuild.put_in_place import is_empty, put_aside, put_in_place
from tests.fixtures.object_store import object_store, shared_place

__all__ = ["object_store", "shared_place"]

LEASE_MS = 3_600_000


@pytest.fixture(params=["folder", "object store"])
def place(request, tmp_path):
    if request.param == "folder":
        (tmp_path / "checkpoint").mkdir()
        return tmp_path / "checkpoint"
    return request.getfixturevalue("shared_place") / "checkpoint"


def a_checkpoint(folder, content):
    for name in ("dlx.json", "metadata", "offsets/7", "state/0/1/8.zip"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def contents(place):
    names = [place / "dlx.json", place / "offsets" / "7", place / "state" / "0" / "1" / "8.zip"]
    return [each.read_text() for each in names]


def test_the_old_checkpoint_is_kept_under_another_name_and_the_lease_stays(place, tmp_path):
    lease = CheckpointLease(place, LEASE_MS)
    lease.acquire()
    assert is_empty(place)
    assert put_aside(place) is None

    put_in_place(a_checkpoint(tmp_path / "one", "one"), place)
    kept = put_aside(place)
    put_in_place(a_checkpoint(tmp_path / "two", "two"), place)
    kept_next = put_aside(place)

    assert kept is not None
    assert kept_next is not None
    assert [each.name for each in (kept, kept_next)] == [
        "checkpoint.before-rebuild-1",
        "checkpoint.before-rebuild-2",
    ]
    assert contents(kept) == ["one"] * 3
    assert contents(kept_next) == ["two"] * 3
    assert is_empty(place)
    lease.check()
    lease.renew()
    lease.release()


def test_snapshots_of_the_front_stay_where_they_are(place, tmp_path):
    if isinstance(place, Path):
        (place / "sequencer").mkdir()
    (tmp_path / "sequencer" / "_2f").mkdir(parents=True)
    (tmp_path / "sequencer" / "_2f" / "7.snapshot").write_text("state")
    put_in_place(tmp_path / "sequencer", place / "sequencer")
    assert is_empty(place)
    put_in_place(a_checkpoint(tmp_path / "one", "one"), place)

    kept = put_aside(place)

    assert (place / "sequencer" / "_2f" / "7.snapshot").read_text() == "state"
    assert kept is not None
    assert not (kept / "sequencer" / "_2f" / "7.snapshot").exists()
