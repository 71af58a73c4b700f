"""A snapshot is written when enough has happened, and snapshots leave the processor to batches."""

import logging
import threading

import pytest

from streaming.config import TablesSettings
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.schema.table_setup import Retention
from streaming.pipeline import snapshot_schedule
from streaming.pipeline.snapshot_schedule import SnapshotSchedule
from streaming.queries.as_of.snapshots import list_snapshots
from streaming.queries.duckdb_tables import Tables
from tests.unit.queries.recording import recording_of_one_order

EVENTS = 1_000


@pytest.fixture
def recording(tmp_path):
    return recording_of_one_order(tmp_path)


@pytest.fixture(autouse=True)
def _free_first_snapshot(monkeypatch):
    monkeypatch.setattr(snapshot_schedule, "EVENT_COST_S", 0)


def schedule_of(recording):
    settings = TablesSettings(snapshot_interval_rows=EVENTS)
    return SnapshotSchedule(recording.place, settings, Retention(), is_wall=True)


def write(schedule, recording, events=EVENTS):
    """Add a batch, write a snapshot if that is due, and return how many snapshots there are."""
    recording.brokers[0].publish("", "work", "another")
    recording.commit()
    schedule.add(events)
    schedule.start_if_due(is_busy=False)
    schedule.stop()
    return len(list_snapshots(Tables(str(recording.root))))


def test_a_snapshot_is_written_once_there_are_enough_events(recording):
    schedule = schedule_of(recording)

    assert write(schedule, recording, EVENTS - 1) == 0
    assert write(schedule, recording, 1) == 1


@pytest.mark.parametrize(("cost_s", "snapshots"), [(0, 1), (1_000, 0)])
def test_the_first_snapshot_that_events_make_due_waits_for_what_it_may_cost(
    recording, monkeypatch, cost_s, snapshots
):
    monkeypatch.setattr(snapshot_schedule, "EVENT_COST_S", cost_s)

    assert write(schedule_of(recording), recording) == snapshots


def test_one_that_waits_for_what_the_last_one_took_is_put_off_and_needs_no_further_batch(
    recording, monkeypatch
):
    monkeypatch.setattr(snapshot_schedule, "EVENT_COST_S", 1_000)
    schedule = schedule_of(recording)
    schedule.add(EVENTS - 1)
    assert not schedule.start_if_due(is_busy=False)

    schedule.add(1)

    assert schedule.start_if_due(is_busy=False)


def test_events_that_come_while_one_is_written_need_no_further_batch(recording, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(SnapshotWriter, "write", lambda _writer: goes_on.wait() and None)
    schedule = schedule_of(recording)
    schedule.add(EVENTS)
    assert not schedule.start_if_due(is_busy=False)
    try:
        assert not schedule.start_if_due(is_busy=False)
        schedule.add(EVENTS)
        assert schedule.start_if_due(is_busy=False)
    finally:
        goes_on.set()
        schedule.stop()


@pytest.mark.parametrize(("share", "snapshots"), [(1, 2), (1_000_000, 1)])
def test_a_snapshot_that_events_make_due_waits_for_its_share_of_time(
    recording, monkeypatch, share, snapshots
):
    monkeypatch.setattr(snapshot_schedule, "CPU_SHARE", share)
    schedule = schedule_of(recording)
    write(schedule, recording)

    assert write(schedule, recording) == snapshots


def test_a_snapshot_that_fails_is_reported_and_a_later_one_covers_it(
    recording, monkeypatch, caplog
):
    monkeypatch.setattr(snapshot_schedule, "CPU_SHARE", 1)
    schedule = schedule_of(recording)
    with monkeypatch.context() as before, caplog.at_level(logging.ERROR):
        before.setattr(SnapshotWriter, "write", lambda _writer: 1 / 0)
        assert write(schedule, recording) == 0

    assert "the snapshot could not be written" in caplog.text
    assert write(schedule, recording) == 1
