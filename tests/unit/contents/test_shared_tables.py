"""Everything that keeps tables healthy works in an object store, with requests that do not grow."""

from contextlib import closing

import pytest

from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.maintenance import Schedule, TableMaintenance
from streaming.ledger.write.ledger import Ledger
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.builders import Broker
from tests.fixtures.object_store import object_store, shared_place
from tests.unit.ledger.builders import a_batch_row, events, publish
from tests.unit.queries.recording import QUERY_ID, Recording

__all__ = ["object_store", "shared_place"]

NOW_MS = 1_900_000_000_000
MOST_REQUESTS, MOST_BYTES = 40, 200_000
"""Of one update, however many batches there were before."""


@pytest.fixture
def recording(shared_place):
    broker = Broker()
    broker.queue("work")
    recording = Recording(shared_place.url, broker, options=shared_place.options)
    yield recording
    recording.close()


def publish_batches(recording, count, messages=3):
    for _ in range(count):
        for _ in range(messages):
            recording.brokers[0].publish("", "work", "order")
        recording.commit()


def tables_at(place):
    return closing(Tables(place.url, place.options))


def resident(place):
    with tables_at(place) as tables:
        tables.view("queue_contents")
        [(count,)] = tables.values("SELECT count(*) FROM queue_contents")
    return count


def test_contents_snapshots_compaction_vacuum_and_queries(recording, shared_place):
    publish_batches(recording, 6)

    ContentsUpdater(shared_place).update()
    closed = SnapshotWriter(shared_place).write()
    schedule = Schedule(checkpoint_commits=5, compaction_least_files=4, vacuum_grace_ms=0)
    maintenance = TableMaintenance(shared_place, "events", schedule)
    done = {each.task for each in maintenance.step(NOW_MS)}
    later = {each.task for each in maintenance.step(NOW_MS + 3_600_000)}

    assert closed is not None
    assert closed.copies == resident(shared_place) == 18
    assert {"checkpoint", "compaction"} <= done
    assert "vacuum" in done | later
    rebuilt = ContentsUpdater(shared_place).rebuild()
    assert rebuilt.rows == 18
    with tables_at(shared_place) as tables:
        assert balance(tables).findings == []


def test_a_query_reads_the_footers_and_columns_that_it_needs(shared_place, object_store):
    with Ledger(shared_place) as ledger:
        for batch in range(6):
            rows = events(range(5_000 * batch, 5_000 * (batch + 1)), batch_id=batch)
            ledger.commit([publish(shared_place, "events", rows)], a_batch_row(batch))
    with tables_at(shared_place) as tables:
        files = tables.files("events", {"batch_id": 4})
        tables.view("events", files=files, columns=["seq", "batch_id"])
        before = object_store.counts()
        assert tables.values("SELECT count(*), min(seq) FROM events WHERE batch_id = 5") == [
            (5_001, 25_000)
        ]
        after = object_store.counts()

    assert after["GET"] - before["GET"] <= 2 * len(files)
    assert after.get("HEAD") == before.get("HEAD")
    sizes = load_table(shared_place / "events").get_add_actions(flatten=True)["size_bytes"]
    assert after["bytes_out"] - before["bytes_out"] < sum(sizes.to_pylist()) / 3


@pytest.mark.parametrize("earlier", [2, 9])
def test_a_contents_update_reads_no_history(recording, shared_place, object_store, earlier):
    """With nets, as in the job: the earlier batches are in the table, and cost nothing."""
    publish_batches(recording, earlier)
    updater = ContentsUpdater(shared_place, QUERY_ID)
    updater.update()
    load_table(shared_place / "queue_contents").create_checkpoint()
    load_table(shared_place / "events").create_checkpoint()
    publish_batches(recording, 1)
    updater.nets.add(QUERY_ID, recording.batch_id, recording.nets)
    before = object_store.counts()

    updated = updater.update()

    after = object_store.counts()
    assert updated is not None
    assert updated.rows == 3 * (earlier + 1)
    assert after["GET"] - before["GET"] <= MOST_REQUESTS
    assert after["bytes_out"] - before["bytes_out"] < MOST_BYTES


def test_idle_maintenance_makes_no_requests(shared_place, object_store):
    with Ledger(shared_place) as ledger:
        ledger.commit(
            [publish(shared_place, "events", events(range(3)))],
            a_batch_row(0),
        )
        writer = ledger.writers["events"]
        maintenance = TableMaintenance(shared_place, "events", Schedule(), writer)
        maintenance.step(NOW_MS)
        before = object_store.counts()

        for step in range(20):
            maintenance.step(NOW_MS + 500 * step)

        assert object_store.counts() == before
