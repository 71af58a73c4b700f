"""A checkpoint and tables that do not belong together are refused."""

import json
from pathlib import Path

import pytest

from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.checkpoint.table_match import TableBatches

OWN = "11111111-1111"
OTHER = "22222222-2222"


def opened(
    path: Path, queries: tuple[str, ...] = (), last_batch: int | None = None, **more: int
) -> Checkpoint:
    checkpoint = Checkpoint(path)
    batches = more if last_batch is None else {"events": last_batch, **more}
    checkpoint.open(2, "hash", {}, TableBatches(frozenset(queries), batches))
    checkpoint.save()
    return checkpoint


def has_run(path: Path, batch: int) -> None:
    """Write Spark's files: the query's id, the plan of a batch, and its end."""
    (path / "metadata").write_text(json.dumps({"id": OWN}))
    for folder in ("offsets", "commits"):
        (path / folder).mkdir()
        (path / folder / str(batch)).write_text("v1\n{}\n-\n-")
    (path / "state").mkdir()


def test_a_new_checkpoint_beside_tables_with_batches_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="which is not the query of the checkpoint"):
        opened(tmp_path, (OTHER,))


def test_an_old_checkpoint_beside_empty_tables_is_refused(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)

    with pytest.raises(CheckpointError, match=r"have no batch, but .* has run 7"):
        opened(tmp_path)


def test_an_old_checkpoint_beside_tables_of_another_job_is_refused(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)

    with pytest.raises(CheckpointError, match=f"of Spark query {OTHER}, which is not"):
        opened(tmp_path, (OTHER,))


def test_tables_that_two_jobs_have_written_to_are_refused(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)

    with pytest.raises(CheckpointError, match=rf"another checkpoint \(Spark query {OTHER}\)"):
        opened(tmp_path, (OWN, OTHER), 6)


def test_an_older_copy_of_the_checkpoint_is_refused(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)

    with pytest.raises(CheckpointError, match="has begun 7 batches, but the tables have 9 of it"):
        opened(tmp_path, (OWN,), 8)


def test_a_checkpoint_continues_with_its_own_tables(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)

    assert opened(tmp_path, (OWN,), 6).manifest.shuffle_partitions == 2
    assert opened(tmp_path, (OWN,), 4).manifest.shuffle_partitions == 2  # two had nothing to write


def test_a_checkpoint_without_a_finished_batch_continues_with_empty_tables(tmp_path):
    opened(tmp_path)

    assert opened(tmp_path).manifest.shuffle_partitions == 2


def test_a_table_restored_to_an_older_state_is_refused(tmp_path):
    checkpoint = opened(tmp_path)
    has_run(tmp_path, 6)
    checkpoint.written.add(2, ("messages", "events"))
    checkpoint.written.add(4, ("events",))
    opened(tmp_path, (OWN,), 4, messages=2)
    opened(tmp_path, (OWN,), 5, messages=5)  # killed before it was recorded

    with pytest.raises(CheckpointError, match=r"table events is 3, but .* has written batch 4"):
        opened(tmp_path, (OWN,), 3, messages=2)
    with pytest.raises(
        CheckpointError, match=r"table messages is none, but .* has written batch 2"
    ):
        opened(tmp_path, (OWN,), 4)


def test_a_checkpoint_with_a_missing_part_is_refused(tmp_path):
    opened(tmp_path)
    has_run(tmp_path, 6)
    assert opened(tmp_path, (OWN,), 6).manifest.shuffle_partitions == 2

    (tmp_path / "state").rmdir()
    with pytest.raises(CheckpointError, match="state is missing"):
        opened(tmp_path, (OWN,), 6)
    (tmp_path / "state").mkdir()
    (tmp_path / "dlx.json").unlink()
    with pytest.raises(CheckpointError, match=r"dlx\.json is missing"):
        opened(tmp_path, (OWN,), 6)
