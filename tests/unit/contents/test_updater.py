"""`queue_contents` equals the contents of the broker's queues."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, plan, small_files
from streaming.ledger.write.log_actions import commit
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.storage.location import Location
from tests.builders import Broker, a_queue
from tests.seeds import seeds
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import QUERY_ID, Recording, apart
from tests.unit.queries.state import contents_of

COLUMNS = """
    vhost, lane, copy_id, parent_copy_id, message_id."offset" AS "offset", queue, state, "position",
    epoch_ms(expires_at) AS expires_at_ms, exchange, routing_key, returns, body_bytes, "user",
    channel
"""


def stored(root):
    """The rows of the table, in the oracle's form."""
    tables = Tables(str(root))
    tables.view("queue_contents")
    return tables.rows(f"SELECT {COLUMNS} FROM queue_contents ORDER BY lane, copy_id")


def read_through(root):
    """The rows that a query returns, even if the table is outdated."""
    tables = Tables(str(root))
    return tables.rows(f"SELECT {COLUMNS} FROM ({prepare_contents(tables)}) ORDER BY lane, copy_id")


@pytest.fixture
def three_orders(tmp_path):
    """A broker with three ready messages, recorded and committed."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    for number in range(3):
        broker.publish("", "work", f"order {number}")
    recording.commit()
    return broker, recording


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_the_table_equals_the_brokers_state_after_any_events(tmp_path, seed):
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    updater = ContentsUpdater(recording.place)

    for _ in range(4):
        play.steps(play.chance.randrange(1, 60))
        recording.commit()
        if play.chance.random() < 0.6:
            updater.update()
        assert read_through(tmp_path) == contents_of(play.broker)
    updater.update()

    assert stored(tmp_path) == contents_of(play.broker)


def test_a_rebuilt_table_equals_the_updated_one(tmp_path):
    play = RandomPlay(7)
    recording = Recording(tmp_path, play.broker)
    updater = ContentsUpdater(recording.place)
    for _ in range(3):
        play.steps(40)
        recording.commit()
        updater.update()
    updated = stored(tmp_path)

    done = ContentsUpdater(recording.place).rebuild()

    assert (done.rows, done.written, done.batch_id) == (len(updated), len(updated), 2)
    assert stored(tmp_path) == updated == contents_of(play.broker)


def test_lanes_are_kept_apart(tmp_path):
    lanes = [Broker(lane=0, lanes=2), apart(Broker(lane=1, lanes=2), 100)]
    recording = Recording(tmp_path, *lanes)
    for broker in lanes:
        broker.do(commands.DeclareQueue(queue=a_queue("work", max_length=2)))
        for number in range(3):
            broker.publish("", "work", f"order {number}")
    recording.commit()

    ContentsUpdater(recording.place).update()

    assert stored(tmp_path) == [row for broker in lanes for row in contents_of(broker)]


def test_an_update_returns_its_changes(three_orders):
    broker, recording = three_orders
    updater = ContentsUpdater(recording.place)

    first = updater.update()
    broker.get("work", "g", 1)
    recording.commit()
    second = updater.update()

    assert first is not None
    assert second is not None
    assert [(one.batch_id, one.rows, one.written, one.files) for one in (first, second)] == [
        (0, 3, 3, 1),
        (1, 3, 3, 1),
    ]


def test_an_update_without_new_batches_changes_nothing(three_orders):
    _, recording = three_orders
    ContentsUpdater(recording.place).update()
    version = DeltaTable(f"{recording.root}/queue_contents").version()

    assert ContentsUpdater(recording.place).update() is None
    assert DeltaTable(f"{recording.root}/queue_contents").version() == version


def test_a_batch_without_changes_of_queues_counts_as_applied(three_orders):
    broker, recording = three_orders
    updater = ContentsUpdater(recording.place)
    updater.update()
    before = stored(recording.root)
    broker.publish("", "nowhere", "lost")
    recording.commit()

    done = updater.update()

    assert done is not None
    assert done.batch_id == 1
    assert updater.update() is None
    assert stored(recording.root) == before


def test_queues_can_run_empty(three_orders):
    broker, recording = three_orders
    updater = ContentsUpdater(recording.place)
    updater.update()
    broker.drain("work")
    recording.commit()

    done = updater.update()

    assert done is not None
    assert (done.rows, done.files, stored(recording.root)) == (0, 0, [])


def test_an_update_that_fails_before_its_commit_is_repeated(three_orders):
    broker, recording = three_orders

    def die(*_arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ContentsUpdater(recording.place, commit=die).update()
    ContentsUpdater(recording.place).update()

    assert stored(recording.root) == contents_of(broker)


def test_the_second_of_two_concurrent_updates_is_abandoned(three_orders):
    broker, recording = three_orders
    overtaken: list[ContentsUpdater] = []

    def late(*arguments):
        if not overtaken:
            overtaken.append(ContentsUpdater(recording.place))
            overtaken[0].update()
        commit(*arguments)

    assert ContentsUpdater(recording.place, commit=late).update() is None
    assert stored(recording.root) == contents_of(broker)


def test_a_table_that_others_keep_changing_is_reported(three_orders):
    _, recording = three_orders

    def refuse(*_arguments):
        raise CommitFailedError("somebody was first")

    with pytest.raises(CommitError, match="somebody was first"):
        ContentsUpdater(recording.place, commit=refuse).update()


def test_only_files_with_changed_rows_are_rewritten(tmp_path):
    broker = Broker()
    broker.queue("work")
    recording = Recording(tmp_path, broker)
    updater = ContentsUpdater(recording.place, file_rows=4)
    for number in range(12):
        broker.publish("", "work", f"order {number}")
    recording.commit()
    updater.update()
    files = set(Tables(str(tmp_path)).files("queue_contents"))
    broker.get("work", "g", 1, auto_ack=True)
    broker.publish("", "work", "order 12")
    recording.commit()

    done = updater.update()

    assert done is not None
    assert (done.rows, done.written, done.files) == (12, 4, 3)
    assert len(files & set(Tables(str(tmp_path)).files("queue_contents"))) == 2
    assert stored(tmp_path) == contents_of(broker)


def test_a_lost_table_is_rebuilt(three_orders):
    broker, recording = three_orders
    ContentsUpdater(recording.place).update()
    shutil.rmtree(Path(recording.root) / "queue_contents")

    assert read_through(recording.root) == contents_of(broker)
    ContentsUpdater(recording.place).update()
    assert stored(recording.root) == contents_of(broker)


def test_the_table_names_its_last_batch(three_orders):
    _, recording = three_orders
    ContentsUpdater(recording.place, QUERY_ID).update()

    table = DeltaTable(f"{recording.root}/queue_contents")

    assert table.transaction_version(QUERY_ID) == 0


def test_without_events_no_table_is_written(tmp_path):
    with pytest.raises(QueryError, match="there is no table 'events' here"):
        ContentsUpdater(Location(str(tmp_path))).update()

    assert list(tmp_path.iterdir()) == []


def test_compacted_files_are_read_like_those_of_batches(tmp_path):
    play = RandomPlay(5)
    recording = Recording(tmp_path, play.broker)
    updater = ContentsUpdater(recording.place)
    for _ in range(3):
        play.steps(40)
        recording.commit()
        if recording.batch_id == 0:
            updater.update()
    for name in LEDGER:
        place, spec = recording.place / name, TABLES[name]
        files = small_files(spec, ActiveFiles(load_table(place)))
        for group in plan(files, 1 << 20, 2):
            assert compact(place, spec, group) is not None
    tables = Tables(str(tmp_path))

    assert [len(tables.files(name)) for name in ("messages", "events")] == [1, 1]
    assert read_through(tmp_path) == contents_of(play.broker)
    assert balance(tables).findings == []
    ContentsUpdater(recording.place).update()
    assert stored(tmp_path) == contents_of(play.broker)
