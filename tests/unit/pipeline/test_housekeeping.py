"""`queue_contents` is updated at intervals, apart from the batches, and catches up."""

import logging
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.config import JobConfig, JobSettings, TablesSettings
from streaming.config.vhosts import VhostSettings
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.maintenance import Maintenance
from streaming.ledger.write.ledger import Ledger
from streaming.machine_cores import Cores
from streaming.pipeline import housekeeping as housekeeping_module
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.flow import busy_traffic
from streaming.pipeline.housekeeping import Housekeeping
from streaming.queries.as_of.contents import progress
from streaming.queries.duckdb_tables import Tables
from tests.fixtures.waiting import wait_until
from tests.unit.queries.recording import QUERY_ID, recording_of_one_order

WAIT_S = 60
HALF_AN_HOUR_MS = 1_800_000


class Counted:
    """Counts the updates of `ContentsUpdater`; the first ones may fail."""

    def __init__(self, monkeypatch, failures=0):
        self.asked = 0
        self.changed = threading.Condition()
        update = ContentsUpdater.update

        def counted(updater):
            with self.changed:
                self.asked += 1
                number = self.asked
            try:
                if number <= failures:
                    raise OSError("the disk is away")
                return update(updater)
            finally:
                with self.changed:
                    self.changed.notify_all()

        monkeypatch.setattr(ContentsUpdater, "update", counted)

    def wait_for(self, times, timeout_s=WAIT_S):
        with self.changed:
            return self.changed.wait_for(lambda: self.asked >= times, timeout_s)


@contextmanager
def running(recording, lag_ms, *, is_busy=False, vhosts=None, **tables):
    config = JobConfig(
        job=JobSettings(clock="event"),
        tables=TablesSettings(contents_lag_ms=lag_ms, **tables),
        **({} if vhosts is None else {"vhosts": vhosts}),
    )
    folder = Path(f"{recording.root}.checkpoint")
    folder.mkdir()
    (folder / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    housekeeping = Housekeeping(config, Ledger(recording.place), Checkpoint(folder), {})
    if is_busy:
        housekeeping.batch_done(is_busy=True)
    housekeeping.start()
    try:
        yield housekeeping
    finally:
        housekeeping.stop()


def applied(root):
    """The last batch in queue_contents."""
    tables = Tables(str(root))
    try:
        [one] = progress(tables)
        return one.as_of
    finally:
        tables.close()


def test_the_contents_catch_up_after_a_kill_without_a_new_batch(tmp_path, monkeypatch):
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch)

    with running(recording, HALF_AN_HOUR_MS):
        assert counted.wait_for(1)

    assert applied(tmp_path) == 0


def test_contents_are_updated_per_interval_and_complete_at_the_end(tmp_path, monkeypatch):
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch)

    with running(recording, HALF_AN_HOUR_MS) as housekeeping:
        assert counted.wait_for(1)
        for _ in range(3):
            recording.brokers[0].publish("", "work", "another order")
            recording.commit()
            housekeeping.batch_done()
            assert not counted.wait_for(2, timeout_s=0.2)

    assert (counted.asked, applied(tmp_path)) == (2, 3)


def test_a_failed_update_is_retried_without_input(tmp_path, monkeypatch, caplog):
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch, failures=1)

    with caplog.at_level(logging.ERROR), running(recording, 100):
        assert counted.wait_for(2)

    assert applied(tmp_path) == 0
    assert "queue_contents could not be updated" in caplog.text


def test_contents_wait_while_a_backlog_is_worked_off(tmp_path, monkeypatch):
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch)
    monkeypatch.setattr(housekeeping_module, "BACKLOG_LAG_FACTOR", 1_000_000)

    with running(recording, 100) as housekeeping:
        housekeeping.batch_done(has_backlog=True)
        assert counted.wait_for(1)  # the one at the start, and perhaps one more
        for _ in range(3):
            recording.commit()
            housekeeping.batch_done(has_backlog=True)
            assert not counted.wait_for(3, timeout_s=0.2)
        before = counted.asked
        housekeeping.batch_done()
        assert counted.wait_for(before + 1)


@pytest.mark.parametrize("reason", ["has_backlog", "is_busy"])
def test_a_snapshot_is_written_later_while_a_backlog_or_a_burst_goes_on(
    tmp_path, monkeypatch, reason
):
    monkeypatch.setattr(busy_traffic, "BURST_S", float("inf"))
    monkeypatch.setattr(busy_traffic, "CALM_S", float("inf"))
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch)

    with running(recording, 100, snapshot_interval_rows=1_000) as housekeeping:
        assert counted.wait_for(1)
        for number in range(2, 5):
            housekeeping.batch_done(events=1_000, **{reason: True})
            assert counted.wait_for(number)
        assert not Tables(str(tmp_path)).has("snapshots")
        housekeeping.batch_done()
        wait_until(lambda: Tables(str(tmp_path)).has("snapshots"))


def test_compaction_waits_for_the_end_of_a_burst_and_contents_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(busy_traffic, "BURST_S", float("inf"))
    monkeypatch.setattr(busy_traffic, "CALM_S", float("inf"))
    recording = recording_of_one_order(tmp_path)
    counted = Counted(monkeypatch)
    steps = []
    step = Maintenance.step

    def noted(maintenance, now_ms):
        step(maintenance, now_ms)
        steps.append(now_ms)

    monkeypatch.setattr(Maintenance, "step", noted)
    for _ in range(12):
        recording.brokers[0].publish("", "work", "another order")
        recording.commit()

    def files():
        return len(load_table(recording.place / "events").file_uris())

    with running(recording, 100, is_busy=True) as housekeeping:
        assert counted.wait_for(1)
        wait_until(lambda: len(steps) > 1)
        before = files()
        housekeeping.batch_done()
        wait_until(lambda: files() < before)

    assert before > 12


def test_beside_fronts_upkeep_waits_for_a_busy_machine_and_then_needs_no_batch(
    tmp_path, monkeypatch
):
    busy = threading.Event()
    busy.set()
    monkeypatch.setattr(Cores, "look", lambda _cores: busy.is_set())
    monkeypatch.setattr(busy_traffic, "BURST_S", float("inf"))
    monkeypatch.setattr(busy_traffic, "LOOK_S", 0.0)
    recording = recording_of_one_order(tmp_path)
    for _ in range(12):
        recording.brokers[0].publish("", "work", "another order")
        recording.commit()
    counted = Counted(monkeypatch)
    steps = []
    step = Maintenance.step

    def noted(maintenance, now_ms):
        step(maintenance, now_ms)
        steps.append(now_ms)

    monkeypatch.setattr(Maintenance, "step", noted)

    def files():
        return len(load_table(recording.place / "events").file_uris())

    before = files()
    sequenced = {"/": VhostSettings(sequenced=True)}
    with running(recording, 100, vhosts=sequenced, snapshot_interval_rows=1_000) as housekeeping:
        housekeeping.batch_done(events=1_000)
        assert counted.wait_for(1)
        wait_until(lambda: len(steps) > 1)
        assert not Tables(str(tmp_path)).has("snapshots")
        assert files() == before

        busy.clear()
        wait_until(lambda: Tables(str(tmp_path)).has("snapshots"))
        wait_until(lambda: files() < before)


def test_the_largest_queues_are_logged_once_each_time_publishes_are_throttled(
    tmp_path, monkeypatch, caplog
):
    recording = recording_of_one_order(tmp_path)
    recording.brokers[0].queue("small")
    recording.brokers[0].publish("", "small", "x")
    recording.commit()
    counted = Counted(monkeypatch)

    with running(recording, 100) as housekeeping:
        assert counted.wait_for(1)
        for times, is_full in enumerate((True, True, False, True), start=2):
            housekeeping.batch_done(is_full=is_full)
            assert counted.wait_for(times)

    assert [text for text in caplog.messages if "largest" in text] == [
        "flow control: the largest queues are 'work' of vhost '/': 5 bytes in 1 messages; "
        "'small' of vhost '/': 1 bytes in 1 messages"
    ] * 2
