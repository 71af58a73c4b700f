"""As of an instant: the tables answer as the broker's own state did then."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.instant import resolve
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import BeforeHistoryError, QueryError, Tables
from streaming.queries.queue_changes import queue_changes
from streaming.queries.queues import peek
from streaming.queries.vhosts.declared import declared
from tests.builders import START_MS, Broker
from tests.seeds import seeds
from tests.unit.contents.test_updater import COLUMNS
from tests.unit.queries.random_play import QUEUES, RandomPlay
from tests.unit.queries.recording import Recording
from tests.unit.queries.state import contents_of


def tables_at(root, cut):
    """The tables as of a cut."""
    tables = Tables(str(root))
    tables.cut = cut
    return tables


def contents_of_tables(tables):
    """What is in the queues."""
    return tables.rows(
        f"SELECT {COLUMNS} FROM ({prepare_contents(tables)}) ORDER BY vhost, lane, copy_id"
    )


def topology_of_tables(tables):
    """What is declared in the vhost `/`."""
    return declared(tables)["/"].definitions()


def contents_at(root, cut):
    return contents_of_tables(tables_at(root, cut))


def topology_at(root, cut):
    return topology_of_tables(tables_at(root, cut))


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_difference_leads_from_the_contents_at_one_instant_to_those_at_the_other(tmp_path, seed):
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    live = []
    for _ in range(4):
        play.steps(40)
        recording.commit()
        live.append(contents_of(play.broker))

    tables = Tables(str(tmp_path))
    for first, last in ((0, 1), (1, 3), (2, 2)):
        for name in QUEUES:
            rows = queue_changes(tables, name, Cut(first), Cut(last))
            copies = {row["copy_id"] for row in live[first] if row["queue"] == name}
            for row in rows:
                if row["change"] == "entered":
                    copies.add(row["copy_id"])
                else:
                    copies.remove(row["copy_id"])
                assert row["why"]
            assert copies == {row["copy_id"] for row in live[last] if row["queue"] == name}


def no_time(text):
    raise AssertionError(text)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_every_batch_is_seen_as_the_broker_was_after_it(tmp_path, seed):
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    live = []
    for _ in range(5):
        play.steps(play.chance.randrange(1, 50))
        recording.commit()
        live.append((contents_of(play.broker), topology_at(tmp_path, None)))

    for batch_id, (contents, topology) in enumerate(live):
        tables = tables_at(tmp_path, Cut(batch_id))
        assert contents_of_tables(tables) == contents
        assert topology_of_tables(tables) == topology
        found = balance(tables)
        assert (found.batch_id, found.findings) == (batch_id, [])


def test_a_time_cuts_a_batch_in_two(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    for number in range(4):
        broker.at(number * 1000)
        broker.publish("", "work", f"order {number}")
    recording.commit()
    broker.at(9000)
    broker.get("work", "g", 2)
    recording.commit()
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    tables = Tables(str(tmp_path))

    tables.cut = resolve(tables, "then", lambda _: start + timedelta(milliseconds=2500))

    assert [row["body"] for row in peek(tables, "work")] == ["order 0", "order 1", "order 2"]
    tables.cut = resolve(tables, "later", lambda _: start + timedelta(milliseconds=9000))
    held = peek(tables, "work", unacked=True)
    assert [(row["body"], row["user"], row["channel"]) for row in held] == [
        ("order 0", None, "c0"),
        ("order 1", None, "c0"),
    ]


def test_the_place_of_a_message_is_an_instant(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    for number in range(3):
        broker.publish("", "work", f"order {number}")
    recording.commit()
    tables = Tables(str(tmp_path))

    for place in ("0/0/1", "dlx.publishes/0/1"):
        tables.cut = resolve(tables, place, no_time)
        assert [row["body"] for row in peek(tables, "work")] == ["order 0", "order 1"]


@pytest.mark.parametrize(
    ("wanted", "said"), [("7", "the last batch is 0"), ("0/0/77", "no message with that topic")]
)
def test_an_instant_that_the_tables_do_not_have_is_refused(tmp_path, wanted, said):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    recording.commit()

    with pytest.raises(QueryError, match=said):
        resolve(Tables(str(tmp_path)), wanted, no_time)


def test_a_time_before_the_first_event_is_refused(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    recording.commit()

    with pytest.raises(BeforeHistoryError, match="history begins at") as refused:
        resolve(Tables(str(tmp_path)), "then", lambda _: datetime(2000, 1, 1, tzinfo=UTC))

    assert refused.value.first == datetime.fromtimestamp(START_MS / 1000, UTC)


def test_a_time_before_a_first_batch_without_events_is_refused_too(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    recording.commit()
    broker.at(1_000)
    broker.queue("work")
    recording.commit()
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    tables = Tables(str(tmp_path))

    with pytest.raises(BeforeHistoryError, match="history begins at"):
        resolve(tables, "then", lambda _: start - timedelta(days=1))

    assert resolve(tables, "0", no_time) == Cut(0)
