"""Snapshots: totals, copies and topology after a batch, and what starts from there."""

import msgspec
import pytest

from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.queries.as_of.snapshots import list_snapshots
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.queues import list_queues
from streaming.queries.vhosts.clients import list_channels, list_consumers
from tests.builders import Broker
from tests.seeds import seeds
from tests.unit.queries.drawing import remove
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording, apart
from tests.unit.queries.state import contents_of
from tests.unit.queries.test_as_of import (
    contents_at,
    contents_of_tables,
    tables_at,
    topology_of_tables,
)


def answers_of(tables):
    """What tables say of queues, declarations and clients."""
    clients = [list_channels(tables), list_consumers(tables), list_queues(tables)]
    return [contents_of_tables(tables), topology_of_tables(tables), *clients]


def rows_of(root, name):
    tables = Tables(str(root))
    tables.view(name)
    return sorted(tables.rows(f"FROM {name}"), key=repr)


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_the_answers_are_the_same_from_any_snapshot(tmp_path, seed):
    plays = [RandomPlay(seed), RandomPlay(50 + seed, vhost="other")]
    apart(plays[1].broker, 1000)
    recording = Recording(tmp_path, *(play.broker for play in plays))
    writer = SnapshotWriter(recording.place)
    live = []
    for _ in range(6):
        for play in plays:
            play.steps(play.chance.randrange(1, 50))
        batch_id = recording.commit()
        tables = tables_at(tmp_path, Cut(batch_id))
        live.append((answers_of(tables), balance(tables)))
        if batch_id in {1, 3}:
            closed = writer.write()
            assert closed is not None
            assert closed.batch_id == batch_id
            assert writer.write() is None
    assert [one.batch_id for one in list_snapshots(Tables(str(tmp_path)))] == [1, 3]

    for batch_id, (contents, before) in enumerate(live):
        tables = tables_at(tmp_path, Cut(batch_id))
        assert answers_of(tables) == contents
        found = balance(tables)
        opening = {1: 1, 2: 1, 3: 3, 4: 3, 5: 3}.get(batch_id)
        assert found == msgspec.structs.replace(before, opening_batch_id=opening)
        assert found.findings == []
        whole = balance(tables, whole=True)
        assert whole == msgspec.structs.replace(before, opening_batch_id=None)
    mine = [row for row in contents_at(tmp_path, Cut(5)) if row["vhost"] == "/"]
    assert mine == contents_of(plays[0].broker)


def test_a_snapshot_does_not_depend_on_those_before_it(tmp_path):
    for root, batches in ((tmp_path / "once", {4}), (tmp_path / "often", {0, 2, 3, 4})):
        play = RandomPlay(9)
        recording = Recording(root, play.broker)
        for _ in range(5):
            play.steps(30)
            if recording.commit() in batches:
                SnapshotWriter(recording.place).write()

    for name in ("snapshots", "snapshot_contents"):
        last = {"snapshots": "batch_id", "snapshot_contents": "snapshot"}[name]
        once, often = (
            [row for row in rows_of(tmp_path / folder, name) if row[last] == 4]
            for folder in ("once", "often")
        )
        assert once == often


def test_an_earlier_batch_can_be_closed_later(tmp_path):
    play = RandomPlay(3)
    recording = Recording(tmp_path, play.broker)
    for _ in range(3):
        play.steps(30)
        recording.commit()
    writer = SnapshotWriter(recording.place)
    before = contents_at(tmp_path, Cut(1))

    assert writer.write(1) is not None

    assert contents_at(tmp_path, Cut(1)) == before
    with pytest.raises(QueryError, match="the last batch is 2"):
        writer.write(3)


def test_a_row_that_is_missing_after_a_snapshot_is_found(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker, with_totals=False)
    broker.queue("work")
    for number in range(3):
        broker.publish("", "work", f"order {number}")
    recording.commit()
    SnapshotWriter(recording.place).write()
    broker.get("work", "g", 2)
    broker.ack("g/0", "g/1")
    recording.commit()
    assert remove(
        tmp_path, "events", lambda row: row["kind"] == "delivered" and row["copy_id"] == 2
    )

    found = balance(Tables(str(tmp_path)))

    assert found.opening_batch_id == 0
    assert found.unexplained > 0
    assert {one.queue for one in found.findings} == {"work"}


def test_contents_can_be_rebuilt_from_a_snapshot(tmp_path):
    play = RandomPlay(5)
    recording = Recording(tmp_path, play.broker)
    play.steps(40)
    recording.commit()
    SnapshotWriter(recording.place).write()
    play.steps(20)
    recording.commit()

    ContentsUpdater(recording.place).rebuild()

    assert contents_at(tmp_path, None) == contents_of(play.broker)


def test_contents_older_than_the_snapshot_are_no_contradiction(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.publish("", "work", "order")
    recording.commit()
    ContentsUpdater(recording.place).update()
    broker.get("work", "g", 1)
    broker.ack("g/0")
    recording.commit()
    SnapshotWriter(recording.place).write()

    assert balance(Tables(str(tmp_path))).findings == []
