"""Reading and changing Spark's files in a checkpoint."""

import json
import os

import pytest

from streaming.pipeline.checkpoint.spark_logs import BatchOffsets, SparkLogs
from streaming.storage.json_file import DamagedFileError, replace_file

NOW_MS = 1_700_000_000_000
ENDS = {"orders": {"0": 5, "1": 7}, "commands": {"0": 2}}


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def checkpoint(tmp_path):
    """Batches 8 to 10 are planned; 8 and 9 have ended."""
    for folder, numbers in (("offsets", (8, 9, 10)), ("commits", (8, 9))):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).write_text("v1\n{}")
            (tmp_path / folder / f".{number}.crc").write_bytes(b"checksum")
    sources = [f"publishes:{json.dumps({'orders': ENDS['orders']})}"]
    sources += [f"commands:{json.dumps({'commands': ENDS['commands']})}", "another:-"]
    lines = ["v2", json.dumps({"batchTimestampMs": NOW_MS}), *sources]
    (tmp_path / "offsets" / "9").write_text("\n".join(lines))
    (tmp_path / "metadata").write_text('{"id":"one-query"}')
    return tmp_path


def test_the_offset_log_has_the_querys_position(checkpoint):
    logs = SparkLogs(checkpoint)

    assert logs.query_id() == "one-query"
    assert (logs.last_planned(), logs.last_committed()) == (10, 9)
    assert logs.has_unfinished_batch()
    assert logs.offsets(9) == BatchOffsets(NOW_MS, ENDS)
    assert logs.next_positions() == ENDS


def test_a_new_checkpoint_has_nothing(tmp_path):
    logs = SparkLogs(tmp_path)

    assert (logs.query_id(), logs.last_planned(), logs.last_committed()) == (None, None, None)
    assert not logs.has_unfinished_batch()
    assert logs.next_positions() == {}


def test_a_planned_batch_is_removed_with_its_checksum(checkpoint):
    logs = SparkLogs(checkpoint)

    logs.forget_planned(10)

    assert not logs.has_unfinished_batch()
    assert names_in(checkpoint / "offsets") == [".8.crc", ".9.crc", "8", "9"]


def test_end_offsets_are_replaced_and_nothing_else(checkpoint):
    logs = SparkLogs(checkpoint)
    before = (checkpoint / "offsets" / "9").read_text().splitlines()

    logs.move_ends(9, {"orders": {"0": 50}}, set())

    after = (checkpoint / "offsets" / "9").read_text().splitlines()
    assert logs.next_positions() == {**ENDS, "orders": {"0": 50, "1": 7}}
    assert (after[:2], after[4]) == (before[:2], before[4])
    assert not (checkpoint / "offsets" / ".9.crc").exists()


def test_a_recreated_topic_forgets_its_other_partitions(checkpoint):
    logs = SparkLogs(checkpoint)

    logs.move_ends(9, {"orders": {"0": 0}}, {"orders"})

    assert logs.next_positions() == {**ENDS, "orders": {"0": 0}}


def test_a_replaced_file_is_on_disk_before_it_is_renamed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _number: synced.append(names_in(tmp_path)))

    replace_file(tmp_path / "dlx.json", b"{}")

    assert synced == [[".dlx.json.unfinished"], ["dlx.json"]]
    assert (tmp_path / "dlx.json").read_bytes() == b"{}"


@pytest.fixture
def running(tmp_path):
    """Batches 8 and 9 have ended, 10 is planned; every file is complete."""
    for folder, numbers, text in (
        ("offsets", (8, 9, 10), "v2\n{}\npublishes:{}\ncommands:-"),
        ("commits", (8, 9), "v1\n{}"),
    ):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "left", "planned", "committed"),
    [
        ("offsets/10", "", 9, 9),
        ("offsets/10", "v2\n{}\npublishes:{}", 9, 9),
        ("offsets/10", 'v2\n{}\npublishes:{"a":\n-', 9, 9),
        ("commits/9", "", 10, 8),
        ("commits/9", "v1\n{", 10, 8),
    ],
)
def test_what_a_power_failure_cut_off_is_removed(running, name, left, planned, committed):
    (running / name).write_text(left)
    logs = SparkLogs(running)

    assert logs.mend() == [name]

    assert (logs.last_planned(), logs.last_committed()) == (planned, committed)
    assert logs.mend() == []


@pytest.mark.parametrize("name", ["offsets/9", "commits/8"])
def test_an_earlier_incomplete_file_is_refused_with_its_path(running, name):
    (running / name).write_text("")

    with pytest.raises(DamagedFileError, match=f"{name} is incomplete"):
        SparkLogs(running).mend()


def test_the_plan_of_a_finished_batch_is_not_removed(running):
    (running / "offsets" / "10").unlink()
    (running / "offsets" / "9").write_text("")

    with pytest.raises(DamagedFileError, match="offsets/9 is incomplete"):
        SparkLogs(running).mend()


def test_a_damaged_query_id_is_named(running):
    (running / "metadata").write_text("")

    with pytest.raises(DamagedFileError, match="metadata is damaged"):
        SparkLogs(running).query_id()
