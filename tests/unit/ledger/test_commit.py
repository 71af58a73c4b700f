"""A batch is in a table once, even if it is committed repeatedly or by several drivers."""

import json
import threading

import pytest

from streaming.ledger.errors import CommitError
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.table_writer import TableWriter, last_checkpoint
from streaming.storage.local import LocalStorage
from tests.fixtures.waiting import WAIT_S, join
from tests.unit.ledger.builders import QUERY, a_place, events, local, paths_of, publish, rows_of


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def a_file(root, batch_id, *, lane=0, query_id=QUERY):
    table = events(
        [batch_id * 10, batch_id * 10 + 1], batch_id=batch_id, lane=lane, query_id=query_id
    )
    return publish(root, "events", table, partition=lane)


def test_a_committed_batch_is_part_of_the_table(root):
    writer = TableWriter(root, "events")

    outcome = writer.commit_batch(QUERY, 0, [a_file(root, 0), a_file(root, 0, lane=1)])

    assert outcome == "committed"
    assert [(row["batch_id"], row["lane"], row["seq"]) for row in rows_of(root, "events")] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1),
    ]  # fmt: skip


def test_the_log_entry_carries_the_batch_and_statistics_that_readers_skip_files_by(root):
    file = a_file(root, 3)

    TableWriter(root, "events").commit_batch(QUERY, 3, [file])

    with local(root, "events").open(f"_delta_log/{1:020}.json") as log:
        entries = [json.loads(line) for line in log.read().splitlines()]
    (add,) = [entry["add"] for entry in entries if "add" in entry]
    (txn,) = [entry["txn"] for entry in entries if "txn" in entry]
    assert (txn["appId"], txn["version"]) == (QUERY, 3)
    assert (add["path"], add["size"], add["dataChange"]) == (file.path, file.size, True)
    assert json.loads(add["stats"]) == {
        "numRecords": 2,
        "minValues": {
            "batch_id": 3,
            "vhost": "/",
            "lane": 0,
            "seq": 30,
            "at": "1970-01-01T00:00:00.045Z",
            "kind": "died",
        },
        "maxValues": {
            "batch_id": 3,
            "vhost": "/",
            "lane": 0,
            "seq": 31,
            "at": "1970-01-01T00:00:00.047Z",  # 46.5 ms: rounded so that it is inside
            "kind": "enqueued",
        },
        "nullCount": {"batch_id": 0, "vhost": 0, "lane": 0, "seq": 0, "at": 0, "kind": 0},
    }


def test_a_batch_without_files_commits_nothing(root):
    writer = TableWriter(root, "events")

    assert (writer.commit_batch(QUERY, 0, []), writer.table().version()) == ("skipped", 0)


def test_the_same_batch_again_is_skipped(root):
    writer = TableWriter(root, "events")
    file = a_file(root, 0)

    outcomes = [writer.commit_batch(QUERY, 0, [file]) for _ in range(3)]

    assert outcomes == ["committed", "skipped", "skipped"]
    assert len(rows_of(root, "events")) == 2


def test_the_same_batch_after_a_restart_is_skipped(root):
    file = a_file(root, 0)
    TableWriter(root, "events").commit_batch(QUERY, 0, [file])

    outcome = TableWriter(root, "events").commit_batch(QUERY, 0, [file])

    assert (outcome, len(rows_of(root, "events"))) == ("skipped", 2)


def test_two_queries_have_separate_batch_numbers(root):
    writer = TableWriter(root, "events")
    writer.commit_batch(QUERY, 5, [a_file(root, 5)])

    outcome = writer.commit_batch("other-query", 0, [a_file(root, 0, query_id="other-query")])

    assert (outcome, writer.last_batch(QUERY), writer.last_batch("other-query")) == (
        "committed",
        5,
        0,
    )
    assert writer.last_batch("third-query") is None


def test_a_driver_skips_a_batch_that_another_committed(root):
    slow, fast = TableWriter(root, "events"), TableWriter(root, "events")
    file = a_file(root, 0)
    fast.commit_batch(QUERY, 0, [file])
    fast.commit_batch(QUERY, 1, [a_file(root, 1)])

    outcomes = [slow.commit_batch(QUERY, batch, [a_file(root, batch)]) for batch in (0, 1, 2)]

    assert outcomes == ["skipped", "skipped", "committed"]
    assert [row["seq"] for row in rows_of(root, "events")] == [0, 1, 10, 11, 20, 21]


def test_a_concurrent_change_of_the_tables_properties_does_not_prevent_a_commit(root):
    writer = TableWriter(root, "events")
    load_table(root / "events").alter.set_table_description("mine")

    assert writer.commit_batch(QUERY, 0, [a_file(root, 0)]) == "committed"
    assert len(rows_of(root, "events")) == 2


def test_a_table_that_refuses_every_commit_fails_the_batch_with_the_reason(root):
    writer = TableWriter(root, "events")
    file = a_file(root, 0)
    intruder = TableWriter(root, "events")

    class Overtaken(TableWriter):
        def _load(self):
            table = super()._load()
            load_table(self.place).alter.set_table_description("again")
            return table

    writer.__class__ = Overtaken
    load_table(root / "events").alter.set_table_description("first")

    with pytest.raises(CommitError, match=r"batch 0 .*Metadata"):
        writer.commit_batch(QUERY, 0, [file])

    writer.__class__ = TableWriter
    assert writer.commit_batch(QUERY, 0, [file]) == "committed"
    assert intruder.commit_batch(QUERY, 0, [file]) == "skipped"


def test_drivers_that_commit_the_same_batches_at_once_leave_every_row_once(root):
    TableWriter(root, "events")
    files = [[a_file(root, batch), a_file(root, batch, lane=1)] for batch in range(20)]
    outcomes: dict[int, list[str]] = {}
    gate = threading.Barrier(3)

    def drive(number):
        writer = TableWriter(root, "events")
        gate.wait(WAIT_S)
        outcomes[number] = [
            writer.commit_batch(QUERY, batch, part) for batch, part in enumerate(files)
        ]

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    join(*threads)

    committed = [sum(outcomes[n][batch] == "committed" for n in range(3)) for batch in range(20)]
    assert committed == [1] * 20
    assert len(rows_of(root, "events")) == 80
    assert len(paths_of(root, "events")) == 40


def test_a_handle_loaded_elsewhere_is_used_even_if_it_is_older(root):
    writer = TableWriter(root, "events")
    behind = load_table(root / "events")
    writer.commit_batch(QUERY, 0, [a_file(root, 0)])

    writer.offer(behind)

    assert writer.commit_batch(QUERY, 0, [a_file(root, 0)]) == "skipped"
    assert writer.commit_batch(QUERY, 1, [a_file(root, 1)]) == "committed"
    assert writer.table().version() == 2


def test_a_handle_whose_log_was_cleaned_up_is_reloaded(root):
    writer = TableWriter(root, "events")
    stale = load_table(root / "events")
    for batch in range(3):
        writer.commit_batch(QUERY, batch, [a_file(root, batch)])
    writer.table().create_checkpoint()
    log = local(root, "events").root / "_delta_log"
    for version in range(3):
        (log / f"{version:020}.json").unlink()

    writer.offer(stale)

    assert writer.commit_batch(QUERY, 2, [a_file(root, 2)]) == "skipped"
    assert writer.commit_batch(QUERY, 3, [a_file(root, 3)]) == "committed"
    assert len(rows_of(root, "events")) == 8


def a_history(root, name, commits):
    """Log entries of earlier batches, without their files."""
    log = local(root, name).root / "_delta_log"
    for version in range(1, commits + 1):
        entries = [{"commitInfo": {}}, {"txn": {"appId": QUERY, "version": version - 1}}]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, entries)))


@pytest.mark.parametrize(("commits", "checkpoint"), [(499, -1), (500, 500)])
def test_a_log_without_checkpoints_gets_one_when_a_writer_opens_it(root, commits, checkpoint):
    TableWriter(root, "events")
    a_history(root, "events", commits)

    writer = TableWriter(root, "events")

    assert last_checkpoint(local(root, "events")) == checkpoint
    assert writer.commit_batch(QUERY, commits - 1, [a_file(root, 0)]) == "skipped"
    assert writer.commit_batch(QUERY, commits, [a_file(root, 0)]) == "committed"


def test_without_a_checkpoint_the_version_is_minus_one(tmp_path):
    assert last_checkpoint(LocalStorage(tmp_path)) == -1
