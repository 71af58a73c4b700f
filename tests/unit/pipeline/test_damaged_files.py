"""Damaged files in the checkpoint's folder are refused with their name and a remedy."""

import pytest

from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.errors import DamagedFileError
from streaming.pipeline.checkpoint.table_match import TableBatches
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.notices import FlowNotices
from streaming.pipeline.topics.accepted_loss import AcceptedLoss
from topology.errors import DlxError

MARKS = MemoryMarks(None, None, ())


def open_checkpoint(folder):
    Checkpoint(folder).open(1, "hash", {}, TableBatches())


def open_loss(folder):
    AcceptedLoss(Checkpoint(folder))


def open_notices(folder):
    FlowNotices(folder, MARKS, {}, {}, {"bootstrap.servers": "127.0.0.1:1"}).stop()


READERS = {
    "dlx.json": (open_checkpoint, "Restore it from a backup. Without it"),
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
