"""Maintenance keeps commits fast, loses nothing and never blocks them."""

import logging
import threading
import time

import pytest

from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.upkeep import maintenance as maintenance_module
from streaming.ledger.upkeep.maintenance import Maintenance, Schedule, TableMaintenance
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.ledger import Ledger
from streaming.ledger.write.table_writer import TableWriter, last_checkpoint
from tests.fixtures.waiting import join, wait_until
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    events,
    local,
    messages,
    paths_of,
    publish,
    rows_of,
    tables_of,
)

NOW_MS = 1_900_000_000_000
SCHEDULE = Schedule(checkpoint_commits=5, compaction_least_files=4)


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def commit(root, writer, name, batches):
    for batch in batches:
        rows = tables_of(batch, seqs=range(3 * batch, 3 * batch + 3))[name]
        writer.commit_batch(QUERY, batch, [publish(root, name, rows)])


def done_by(maintenance, now_ms, **more):
    return [(done.table, done.task, done.count) for done in maintenance.step(now_ms, **more)]


def test_a_checkpoint_is_made_once_enough_was_committed(root):
    writer = TableWriter(root, "events")
    maintenance = TableMaintenance(root, "events", Schedule(checkpoint_commits=5), writer)
    commit(root, writer, "events", range(4))

    before = done_by(maintenance, NOW_MS)
    commit(root, writer, "events", range(4, 5))
    after = done_by(maintenance, NOW_MS)
    again = done_by(maintenance, NOW_MS)

    assert (before, after, again) == ([], [("events", "checkpoint", 1)], [])
    assert last_checkpoint(local(root, "events")) == 5
    commit(root, writer, "events", range(5, 7))
    assert len(rows_of(root, "events")) == 21


def test_checkpoints_take_at_most_a_twentieth_of_the_time(root):
    writer = TableWriter(root, "events")
    maintenance = TableMaintenance(root, "events", Schedule(checkpoint_commits=1), writer)
    commit(root, writer, "events", range(1))
    (first,) = maintenance.step(NOW_MS)
    commit(root, writer, "events", range(1, 2))

    pause_ms = int(first.seconds * 1000 * 20)
    too_soon = done_by(maintenance, NOW_MS + pause_ms - 1)
    in_time = done_by(maintenance, NOW_MS + pause_ms)

    assert (too_soon, in_time) == ([], [("events", "checkpoint", 1)])


def test_small_files_are_compacted_at_each_interval(root):
    writer = TableWriter(root, "events")
    schedule = Schedule(compaction_ms=60_000, compaction_least_files=4)
    maintenance = TableMaintenance(root, "events", schedule, writer)
    commit(root, writer, "events", range(3))
    done = [done_by(maintenance, NOW_MS)]
    commit(root, writer, "events", range(3, 6))
    done.append(done_by(maintenance, NOW_MS + 59_999))
    done.append(done_by(maintenance, NOW_MS + 60_000))

    assert done == [[], [], [("events", "compaction", 6)]]
    assert (len(paths_of(root, "events")), len(rows_of(root, "events"))) == (1, 18)


def test_many_small_files_are_compacted_before_the_interval_ends(root):
    writer = TableWriter(root, "events")
    schedule = Schedule(checkpoint_commits=5, compaction_least_files=4, compaction_files=5)
    maintenance = TableMaintenance(root, "events", schedule, writer)
    maintenance.step(NOW_MS)
    commit(root, writer, "events", range(5))

    assert done_by(maintenance, NOW_MS + 1) == [
        ("events", "checkpoint", 1),
        ("events", "compaction", 5),
    ]


def test_compaction_waits_under_load_and_runs_as_soon_as_it_ends(root):
    writer = TableWriter(root, "events")
    maintenance = TableMaintenance(root, "events", Schedule(compaction_least_files=4), writer)
    commit(root, writer, "events", range(6))

    under_load = done_by(maintenance, NOW_MS, is_busy=True)
    later = done_by(maintenance, NOW_MS + 1)

    assert (under_load, later) == ([], [("events", "compaction", 6)])


@pytest.mark.parametrize(("many", "rests"), [(500, 6), (5, 0)])
def test_compaction_rests_unless_there_are_many_files(root, many, rests):
    writer = TableWriter(root, "events")
    schedule = Schedule(checkpoint_commits=5, compaction_least_files=4, compaction_files=many)
    worked: list[float] = []
    maintenance = TableMaintenance(root, "events", schedule, writer, worked.append)
    commit(root, writer, "events", range(6))

    done = done_by(maintenance, NOW_MS)

    assert ("events", "compaction", 6) in done
    assert len(worked) == rests


@pytest.mark.parametrize("rests", [True, False])
def test_a_stop_ends_the_rests_of_compaction_which_then_goes_on(root, monkeypatch, rests):
    monkeypatch.setattr(maintenance_module, "REST", 1_000_000)
    writer = TableWriter(root, "events")
    commit(root, writer, "events", range(6))
    has_burst = (lambda: False) if rests else None
    maintenance = Maintenance(
        root, SCHEDULE, {"events": writer}, names=("events",), has_burst=has_burst
    )
    working = threading.Thread(target=maintenance.step, args=(NOW_MS,))
    working.start()

    if rests:
        working.join(2)
        assert working.is_alive()
        maintenance.stop()
    join(working)

    assert len(paths_of(root, "events")) == 1


def test_compaction_that_has_begun_rests_until_a_burst_is_over(root, monkeypatch):
    monkeypatch.setattr(maintenance_module, "LOOK_S", 0.01)
    writer = TableWriter(root, "events")
    commit(root, writer, "events", range(6))
    is_over, looks = threading.Event(), []

    def has_burst():
        looks.append(len(paths_of(root, "events")))
        return not is_over.is_set()

    maintenance = Maintenance(
        root, SCHEDULE, {"events": writer}, names=("events",), has_burst=has_burst
    )
    working = threading.Thread(target=maintenance.step, args=(NOW_MS,))
    working.start()
    wait_until(lambda: len(looks) > 20)  # it rests six times
    assert set(looks) == {6}

    is_over.set()
    join(working)

    assert len(paths_of(root, "events")) == 1


def test_tables_get_checkpoints_while_the_compaction_of_another_one_rests(root, monkeypatch):
    monkeypatch.setattr(maintenance_module, "REST", 1_000_000)
    names = ("events", "messages")
    writers = {name: TableWriter(root, name) for name in names}
    for name in names:
        commit(root, writers[name], name, range(1))
    maintenance = Maintenance(root, SCHEDULE, writers, names=names, has_burst=lambda: False)
    maintenance.step(time.time_ns() // 1_000_000)
    commit(root, writers["events"], "events", range(1, 4))
    commit(root, writers["messages"], "messages", range(1, 7))
    later_ms = time.time_ns() // 1_000_000 + 2 * SCHEDULE.compaction_ms
    working = threading.Thread(target=maintenance.step, args=(later_ms,))
    working.start()

    wait_until(lambda: last_checkpoint(local(root, "messages")) >= 5)
    assert working.is_alive()

    maintenance.stop()
    join(working)


def test_many_small_files_are_compacted_even_under_load_and_once(root):
    writer = TableWriter(root, "events")
    schedule = Schedule(checkpoint_commits=5, compaction_least_files=4, compaction_files=5)
    maintenance = TableMaintenance(root, "events", schedule, writer)
    commit(root, writer, "events", range(5))

    first = done_by(maintenance, NOW_MS, is_busy=True)
    commit(root, writer, "events", range(5, 9))
    again = done_by(maintenance, NOW_MS + 1_000_000, is_busy=True)

    assert first == [("events", "checkpoint", 1), ("events", "compaction", 5)]
    assert ("events", "compaction", 4) not in again


def test_log_entries_before_the_checkpoint_and_unneeded_files_are_removed(root):
    retention = Retention(log_ms=0)
    writer = TableWriter(root, "messages", retention)
    schedule = Schedule(
        checkpoint_commits=3, compaction_least_files=2, vacuum_grace_ms=1000, vacuum_ms=1000
    )
    maintenance = TableMaintenance(root, "messages", schedule, writer)
    commit(root, writer, "messages", range(4))

    first = done_by(maintenance, NOW_MS)
    second = done_by(maintenance, NOW_MS + 1000)

    assert [task for _, task, _ in first] == ["checkpoint", "compaction"]
    log = local(root, "messages").root / "_delta_log"
    assert not (log / f"{0:020}.json").exists()
    assert second == [("messages", "vacuum", 4)]
    assert len(rows_of(root, "messages")) == 12
    commit(root, writer, "messages", range(4, 6))
    assert len(rows_of(root, "messages")) == 18


def test_a_writer_continues_from_each_checkpoint_without_reading_older_entries(root):
    writer = TableWriter(root, "events", Retention(log_ms=0))
    maintenance = TableMaintenance(root, "events", SCHEDULE, writer)

    for batch in range(40):
        commit(root, writer, "events", [batch])
        maintenance.step(NOW_MS + 20_000 * batch)

    assert sorted(row["seq"] for row in rows_of(root, "events")) == list(range(120))
    log = local(root, "events").root / "_delta_log"
    assert len(list(log.iterdir())) < 20


def test_the_log_of_queue_contents_is_shortened_without_compaction(root):
    writer = TableWriter(root, "queue_contents")
    columns = {
        "query_id": Constant(QUERY),
        "vhost": Constant("/"),
        "lane": Constant(0),
        "queue": Constant("work"),
        "state": Constant("ready"),
    }
    for batch in range(6):
        contents = {**columns, "batch_id": Constant(batch), "copy_id": [batch]}
        rows = build_table(TABLES["queue_contents"].schema, contents, 1)
        writer.commit_batch(QUERY, batch, [publish(root, "queue_contents", rows)])
    maintenance = TableMaintenance(root, "queue_contents", SCHEDULE, writer)

    assert done_by(maintenance, NOW_MS) == [("queue_contents", "checkpoint", 1)]
    assert len(paths_of(root, "queue_contents")) == 6


def test_maintenance_waits_for_missing_tables(root):
    maintenance = Maintenance(root, Schedule(checkpoint_commits=1))
    before = maintenance.step(NOW_MS)
    writer = TableWriter(root, "events")
    commit(root, writer, "events", range(1))

    after = maintenance.step(NOW_MS)

    assert (before, [(done.table, done.task) for done in after]) == ([], [("events", "checkpoint")])
    assert maintenance.last_error is None


def test_a_failing_table_is_reported_and_does_not_stop_the_others(root, caplog):
    caplog.set_level(logging.ERROR)
    with Ledger(root) as ledger:
        for batch in range(5):
            rows = tables_of(batch, seqs=range(3 * batch, 3 * batch + 3))
            files = [publish(root, name, table) for name, table in rows.items()]
            ledger.commit(files, a_batch_row(batch))
        (local(root, "messages").root / paths_of(root, "messages")[2]).unlink()
        maintenance = Maintenance(root, SCHEDULE, ledger.writers)

        done = maintenance.step(NOW_MS)

    joined = {(entry.table, entry.task) for entry in done if entry.task == "compaction"}
    assert joined == {(name, "compaction") for name in LEDGER if name != "messages"}
    assert isinstance(maintenance.last_error, FileNotFoundError)
    assert [record.args for record in caplog.records] == [("messages",)]


def test_files_from_the_lowest_resident_offset_on_are_kept(root, caplog):
    writer = TableWriter(root, "messages")
    for batch in range(2):
        table = messages(range(5 * batch, 5 * batch + 5), batch_id=batch)
        writer.commit_batch(QUERY, batch, [publish(root, "messages", table)])
    schedule = Schedule(compaction_least_files=2, vacuum_ms=1, vacuum_grace_ms=1)
    lowest = {(1, 0): 0}
    maintenance = Maintenance(root, schedule, lowest_resident=lambda: lowest, names=("messages",))
    maintenance.step(NOW_MS)
    (joined,) = paths_of(root, "messages")
    (local(root, "messages").root / joined).write_bytes(
        (local(root, "messages").root / publish(root, "messages", messages([9], batch_id=7)).path)
        .read_bytes()
    )  # fmt: skip

    kept = maintenance.step(NOW_MS + 2)
    lowest[1, 0] = 10
    removed = maintenance.step(NOW_MS + 4)

    assert [done.count for done in kept] == []
    (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert warning.args[1] == 2
    assert [(done.task, done.count) for done in removed] == [("vacuum", 2)]


def test_the_thread_works_until_it_is_stopped(root):
    with Ledger(root) as ledger:
        for batch in range(6):
            file = publish(root, "events", events([batch], batch_id=batch))
            ledger.commit([file], a_batch_row(batch))
        maintenance = Maintenance(root, SCHEDULE, ledger.writers, pause_seconds=0.001)
        maintenance.start()
        deadline_s = time.monotonic() + 30
        while last_checkpoint(local(root, "events")) < 5 and time.monotonic() < deadline_s:
            time.sleep(0.001)
        maintenance.stop()
        maintenance.stop()

        assert maintenance.last_error is None
        assert last_checkpoint(local(root, "events")) >= 5
        ledger.commit([publish(root, "events", events([6], batch_id=6))], a_batch_row(6))
    assert len(rows_of(root, "events")) == 14


def test_maintenance_can_be_stopped_before_its_start(root):
    Maintenance(root).stop()
