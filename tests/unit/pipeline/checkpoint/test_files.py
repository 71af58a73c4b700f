"""The files of a checkpoint: stable formats, and errors for damaged ones."""

import json

import msgspec
import pytest

from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.errors import UnfinishedBatchError
from streaming.pipeline.checkpoint.manifest import Manifest, write_manifest
from streaming.pipeline.checkpoint.table_match import TableBatches
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.notices import FlowNotices
from streaming.pipeline.topics.accepted_loss import AcceptedLoss
from streaming.storage.json_file import DamagedFileError
from topology.errors import DlxError

MARKS = MemoryMarks(None, None, ())


def open_checkpoint(folder):
    Checkpoint(folder).open(1, "hash", {}, TableBatches())


def open_loss(folder):
    AcceptedLoss(Checkpoint(folder))


def open_notices(folder):
    FlowNotices(folder, MARKS, {}, {}, {"bootstrap.servers": "127.0.0.1:1"}).stop()


READERS = {
    "dlx.json": (open_checkpoint, "dlx checkpoint rebuild"),
    "lost.json": (open_loss, "Restore it from a backup, or move it away"),
    "flow.json": (open_notices, 'Restore it from a backup, or write {"seq": N'),
}


@pytest.mark.parametrize("damaged", [b"", b'{"seq": 1', b'"text"', b'[{"topic": "\xff"}]', b"\0\0"])
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named_with_the_remedy(tmp_path, name, damaged):
    read, remedy = READERS[name]
    (tmp_path / name).write_bytes(damaged)

    with pytest.raises(DlxError) as caught:
        read(tmp_path)

    assert type(caught.value) is DamagedFileError
    assert f"{tmp_path / name} is damaged (" in str(caught.value)
    assert remedy in str(caught.value)
    assert (tmp_path / name).read_bytes() == damaged


@pytest.mark.parametrize("name", READERS)
def test_a_checkpoint_without_the_file_is_a_new_one(tmp_path, name):
    READERS[name][0](tmp_path)


def has_planned_a_batch(folder):
    (folder / "metadata").write_text('{"id":"query"}')
    (folder / "offsets").mkdir()
    (folder / "offsets" / "7").write_text('v2\n{"batchTimestampMs":1}\n-\n-')
    (folder / "commits").mkdir()
    (folder / "commits" / "7").write_text("v1\n{}")
    (folder / "state").mkdir()


def test_files_keep_their_names_and_formats(tmp_path):
    """An existing checkpoint must open with every later version."""
    gap = {"topic": "t", "topic_number": 1, "partition": 0, "start": 2, "end": None, "resume": 0}
    files = {
        "dlx.json": {
            "format": 1,
            "shuffle_partitions": 1,
            "core_version": 1,
            "wire_version": 1,
            "topics": {"cluster/id": 1},
            "topic_names": {"cluster/id": "t"},
            "shards": {"0 /": 1},
            "outcome_hash": "old",
            "outcome_settings": {},
        },
        "batches.json": {"events": 7},
        "clock.json": {"batch_id": 7, "now_ms": 1_700_000_000_000},
        "flow.json": {"seq": 3, "active": False},
        "lost.json": [gap],
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    has_planned_a_batch(tmp_path)

    checkpoint = Checkpoint(tmp_path)
    checkpoint.open(1, "new", {}, TableBatches(frozenset({"query"}), {"events": 7}))
    notices = FlowNotices(tmp_path, MARKS, {}, {}, {"bootstrap.servers": "127.0.0.1:1"})
    notices.stop()

    assert checkpoint.manifest.topic_number("cluster/id", "t") == 1
    assert checkpoint.manifest.shard_key("/", 0) == 1
    assert checkpoint.written.last == {"events": 7}
    assert JobClock(checkpoint, 0, is_wall=True).of_batch(7, 0) == 1_700_000_000_000
    assert json.loads(notices.record("flow")[0])["active"] is False
    assert [msgspec.to_builtins(each) for each in AcceptedLoss(checkpoint).gaps] == [gap]


def test_an_unfinished_batch_that_would_be_cut_otherwise_is_refused(tmp_path):
    tables = TableBatches(frozenset({"query"}), {"events": 7})

    def start(**constants):
        checkpoint = Checkpoint(tmp_path)
        checkpoint.open(0, "hash", {}, tables, constants)
        return checkpoint

    has_planned_a_batch(tmp_path)
    write_manifest(tmp_path, Manifest())
    start(rows="1", bytes="2").save()
    (tmp_path / "offsets" / "8").write_text('v2\n{"batchTimestampMs":1}\n-\n-')

    with pytest.raises(UnfinishedBatchError, match="bytes: was 2, now 3"):
        start(rows="1", bytes="3")
    start(rows="1", bytes="2")
