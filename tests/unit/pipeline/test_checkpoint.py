"""A checkpoint and tables that do not belong together are refused."""

from pathlib import Path

import pytest

from streaming.pipeline.checkpoint import Checkpoint, CheckpointError


def opened(path: Path, *, tables_empty: bool) -> Checkpoint:
    checkpoint = Checkpoint(path)
    checkpoint.open(2, "hash", {}, tables_empty=tables_empty)
    checkpoint.save()
    return checkpoint


def committed(path: Path, batch: int) -> None:
    (path / "commits").mkdir()
    (path / "commits" / str(batch)).write_text("v1\n{}")


def test_a_new_checkpoint_beside_tables_with_batches_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="the tables there have batches"):
        opened(tmp_path, tables_empty=False)


def test_an_old_checkpoint_beside_empty_tables_is_refused(tmp_path):
    opened(tmp_path, tables_empty=True)
    committed(tmp_path, 6)

    with pytest.raises(CheckpointError, match=r"have no batch, and .* has run 7"):
        opened(tmp_path, tables_empty=True)


def test_a_checkpoint_whose_first_batch_never_ended_goes_on_with_empty_tables(tmp_path):
    opened(tmp_path, tables_empty=True)

    assert opened(tmp_path, tables_empty=True).job_file.shuffle_partitions == 2
