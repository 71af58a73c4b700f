"""`queue_contents` is the same by net changes as by events, and reads no events then."""

import shutil

import pyarrow as pa
import pytest

from streaming.broker import commands
from streaming.contents import net_changes, pending_nets
from streaming.contents.pending_nets import PendingNets
from streaming.contents.updater import FILE_ROWS, ContentsUpdater
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.log_actions import commit
from streaming.pipeline.rows.events import event_table
from streaming.queries.duckdb_tables import Tables
from tests.builders import Broker, a_queue
from tests.seeds import seeds
from tests.unit.contents.test_updater import stored
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import QUERY_ID, Recording, apart
from tests.unit.queries.state import contents_of


class Job:
    """A recording whose batches report their net changes to an updater, and its only reader."""

    def __init__(self, root, *brokers, **options):
        self.recording = Recording(root, *brokers)
        self.updater = ContentsUpdater(self.recording.place, **options)
        self.commit()
        self.updater.update()  # the first update reads events

    def commit(self):
        """Commit a batch and report its net changes."""
        batch_id = self.recording.commit()
        self.updater.nets.add(QUERY_ID, batch_id, self.recording.nets)
        return batch_id

    def update_without_events(self):
        """Update while the table of events is away."""
        away = f"{self.recording.root}/elsewhere"
        shutil.move(f"{self.recording.root}/events", away)
        try:
            return self.updater.update()
        finally:
            shutil.move(away, f"{self.recording.root}/events")


@pytest.mark.parametrize("file_rows", [4, FILE_ROWS])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_contents_by_net_changes_equal_those_by_events(tmp_path, seed, file_rows):
    play = RandomPlay(seed)
    job = Job(tmp_path, play.broker, file_rows=file_rows)

    for _ in range(6):
        play.steps(play.chance.randrange(1, 60))
        job.commit()
        if play.chance.random() < 0.6:
            job.update_without_events()
            assert stored(tmp_path) == contents_of(play.broker)
    job.commit()
    job.update_without_events()
    by_nets = stored(tmp_path)
    ContentsUpdater(job.recording.place).rebuild()

    assert by_nets == stored(tmp_path) == contents_of(play.broker)


def test_lanes_are_kept_apart(tmp_path):
    lanes = [Broker(lane=0, lanes=2), apart(Broker(lane=1, lanes=2), 100)]
    for broker in lanes:
        broker.do(commands.DeclareQueue(queue=a_queue("work")))
        for number in range(3):
            broker.publish("", "work", f"order {number}")
    job = Job(tmp_path, *lanes)
    for broker in lanes:
        broker.publish("", "work", "one more")
    lanes[0].get("work", "g", 1)
    lanes[1].get("work", "g", 2, auto_ack=True)
    job.commit()

    job.update_without_events()

    assert stored(tmp_path) == [row for broker in lanes for row in contents_of(broker)]


def test_what_enters_and_leaves_between_updates_changes_no_file(tmp_path):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "stays")
    job = Job(tmp_path, broker)
    files = Tables(str(tmp_path)).files("queue_contents")
    broker.publish("", "work", "passes")
    job.commit()
    broker.do(commands.DeclareQueue(queue=a_queue("other")))
    broker.publish("", "other", "passes too")
    broker.drain("other")
    job.commit()
    broker.get("work", "g", 2, auto_ack=True)
    broker.publish("", "work", "again")
    job.commit()

    done = job.update_without_events()
    broker.publish("", "other", "passes")
    broker.drain("other")
    batch_id = job.commit()
    again = job.update_without_events()

    assert (done.rows, done.written) == (1, 1)
    assert Tables(str(tmp_path)).files("queue_contents") != files
    assert (again.batch_id, again.rows, again.written) == (batch_id, 1, 0)
    assert stored(tmp_path) == contents_of(broker)


def test_a_batch_whose_net_changes_are_missing_is_read_from_events(tmp_path):
    play = RandomPlay(3)
    job = Job(tmp_path, play.broker)
    play.steps(40)
    job.recording.commit()  # nobody reports it
    play.steps(40)
    last = job.commit()

    done = job.updater.update()
    play.steps(40)
    job.commit()
    job.update_without_events()

    assert done is not None
    assert done.batch_id == last
    assert stored(tmp_path) == contents_of(play.broker)


def test_a_batch_that_runs_again_is_applied_once(tmp_path):
    play = RandomPlay(4)
    job = Job(tmp_path, play.broker)
    play.steps(40)
    batch_id = job.commit()
    nets = job.recording.nets
    job.updater.nets.add(QUERY_ID, batch_id, nets)
    job.update_without_events()
    job.updater.nets.add(QUERY_ID, batch_id, nets)

    assert job.updater.update() is None
    assert stored(tmp_path) == contents_of(play.broker)


def test_an_update_that_another_process_overtakes_starts_over(tmp_path):
    overtaken: list[ContentsUpdater] = []

    def late(*arguments):
        if is_overtaken and not overtaken:
            overtaken.append(ContentsUpdater(job.recording.place))
            overtaken[0].rebuild()
        commit(*arguments)

    play = RandomPlay(5)
    is_overtaken = False
    job = Job(tmp_path, play.broker, commit=late)
    play.steps(40)
    job.commit()
    is_overtaken = True

    assert job.updater.update() is None
    assert stored(tmp_path) == contents_of(play.broker)


def test_too_many_pending_net_changes_are_dropped(tmp_path, monkeypatch):
    play = RandomPlay(6)
    job = Job(tmp_path, play.broker)
    monkeypatch.setattr(pending_nets, "MAX_PENDING_BYTES", 100)
    play.steps(40)
    last = job.commit()

    assert job.updater.nets.bytes == 0
    done = job.updater.update()
    assert done is not None
    assert done.batch_id == last
    assert stored(tmp_path) == contents_of(play.broker)


def test_the_net_changes_of_another_query_are_not_applied():
    nets = PendingNets()
    nets.add("one", 3, [])

    assert nets.after("another", 2) is None
    assert nets.after("one", 1) is None
    assert nets.after("one", 2) == (3, {})


def test_a_batch_without_rows_leaves_no_gap_and_is_not_the_last_one():
    nets = PendingNets()
    nets.add("one", 3, None)

    assert nets.after("one", 2) is None
    nets.add("one", 4, [])
    nets.add("one", 5, None)
    assert nets.after("one", 2) == (4, {})


def test_net_changes_that_are_too_large_are_not_reported(monkeypatch):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "order")
    net = net_changes.net_changes(event_table(broker.finish().events, QUERY_ID, 0, "/", 0))

    assert pa.ipc.open_stream(net_changes.encode(net)).read_all().num_rows == 1
    monkeypatch.setattr(net_changes, "MAX_NET_BYTES", 100)
    assert net_changes.encode(net) is None


def test_the_table_keeps_the_columns_and_texts_of_its_schema(tmp_path):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "order")
    job = Job(tmp_path, broker)
    broker.publish("", "work", "another order")
    job.commit()
    before = load_table(job.recording.place / "queue_contents").schema()

    job.update_without_events()

    table = load_table(job.recording.place / "queue_contents")
    assert table.schema() == before
    assert pa.table(table.scan().read_all()).num_rows == 2
