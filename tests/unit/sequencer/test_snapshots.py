"""Does a snapshot come back to its own log, and to no other?"""

import msgspec
import pytest

from streaming.broker.sequence.log_fold import Terms
from streaming.sequencer.snapshots import (
    KEPT,
    LogIdentity,
    OtherLogError,
    ShorterLogError,
    Snapshot,
    Snapshots,
)
from streaming.storage.location import Location

LOG = LogIdentity("/", "dlx.log._2f", "cluster-1", "id-1")
TERMS = Terms(1, "abc")


def snapshots(folder, log=LOG):
    return Snapshots(Location(str(folder)), log)


def a_snapshot(offset):
    return Snapshot(offset, {"header": b"at %d" % offset}, TERMS, offset - 1)


def ends(first, end):
    return lambda: (first, end)


def test_the_newest_one_that_the_log_reaches_back_to_comes_back(tmp_path):
    for offset in (5, 10):
        snapshots(tmp_path).write(a_snapshot(offset))

    assert snapshots(tmp_path).newest(ends(0, 10)) == a_snapshot(10)
    assert snapshots(tmp_path).newest(ends(7, 20)) == a_snapshot(10)
    assert snapshots(tmp_path).newest(ends(11, 20)) is None


def test_a_log_that_grows_meanwhile_is_no_shorter_log(tmp_path):
    kept = snapshots(tmp_path)
    kept.write(a_snapshot(5))

    def grows():
        kept.write(a_snapshot(30))
        return 0, 10

    assert kept.newest(grows) == a_snapshot(5)


@pytest.mark.parametrize(
    ("job_at", "kept"),
    [
        (None, [0]),  # it may be anywhere
        (-1, [0]),  # before all of them, as the log has its start
        (1, [1]),
        (2, [2]),
        (99, []),
    ],
)
def test_few_are_kept_and_what_a_rebuild_of_the_job_needs(tmp_path, job_at, kept):
    for offset in range(KEPT + 3):
        snapshots(tmp_path).write(a_snapshot(offset), job_at)

    assert snapshots(tmp_path).offsets() == [*kept, *range(3, KEPT + 3)]


def test_a_start_from_the_oldest_one_needs_most_of_the_log(tmp_path):
    assert snapshots(tmp_path).needed_from() == 0
    for offset in (5, 10):
        snapshots(tmp_path).write(a_snapshot(offset))

    assert snapshots(tmp_path).needed_from() == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic_id": "id-2"}, "of a topic that was deleted"),
        ({"topic": "other"}, "has another name"),
        ({"cluster": "cluster-2"}, "correct kafka.bootstrap_servers"),
        ({"vhost": "shop"}, "give each job a checkpoint of its own"),
    ],
)
def test_one_of_another_log_is_refused(tmp_path, change, said):
    snapshots(tmp_path).write(a_snapshot(5))
    other = msgspec.structs.replace(LOG, **change)
    if "vhost" in change:
        (tmp_path / "sequencer" / "_2f").rename(tmp_path / "sequencer" / "shop")

    with pytest.raises(OtherLogError, match=said) as refused:
        snapshots(tmp_path, other).newest(ends(0, 3))

    assert "5.snapshot is of topic dlx.log._2f with the id id-1" in str(refused.value)
    assert "a new checkpoint" in str(refused.value)


def test_one_behind_the_end_of_the_log_is_refused(tmp_path):
    snapshots(tmp_path).write(a_snapshot(5))

    with pytest.raises(ShorterLogError, match="ends at offset 4") as refused:
        snapshots(tmp_path).newest(ends(0, 4))

    assert "lost records whose messages were confirmed" in str(refused.value)


@pytest.mark.parametrize("damage", [b"", b"\xff\xff", b"\x00"])
def test_a_damaged_one_is_ignored_with_a_word(tmp_path, caplog, damage):
    snapshots(tmp_path).write(a_snapshot(3))
    snapshots(tmp_path).write(a_snapshot(5))
    file = tmp_path / "sequencer" / "_2f" / "5.snapshot"
    file.write_bytes(damage + file.read_bytes()[:-3])

    assert snapshots(tmp_path).newest(ends(0, 9)) == a_snapshot(3)
    assert "the snapshot at offset 5 is ignored: it is damaged" in caplog.text


def test_one_of_another_version_is_ignored_with_a_word(tmp_path, caplog, monkeypatch):
    snapshots(tmp_path).write(a_snapshot(5))
    monkeypatch.setattr("streaming.sequencer.snapshots.STATE_VERSION", 99)

    assert snapshots(tmp_path).newest(ends(0, 9)) is None
    assert "another version made it" in caplog.text
