"""The balance compared with the broker's state, with an empty ledger, and with contents."""

from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.drawing import drawn, remove
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording


def test_the_brokers_count_of_copies_is_compared_with_the_events(tmp_path):
    """Even a removed last row is found, without totals and contents."""
    broker = Broker()
    recording = Recording(tmp_path, broker, with_totals=False)
    broker.queue("work")
    broker.publish("", "work", "order")
    broker.get("work", "g", 1)
    broker.ack("g/0")
    recording.commit()
    remove(tmp_path, "events", lambda row: row["kind"] == "acked")

    (finding,) = drawn(tmp_path).findings
    assert (finding.what, finding.count) == ("contradiction", 1)


def test_the_balance_of_an_empty_job_is_closed(tmp_path):
    Recording(tmp_path, Broker())

    found = drawn(tmp_path)

    assert (found.batch_id, found.vhosts, found.queues, found.findings) == (None, [], [], [])


def test_outdated_contents_are_no_contradiction(tmp_path):
    play = RandomPlay(11)
    recording = Recording(tmp_path, play.broker)
    updater = ContentsUpdater(recording.place)
    for _ in range(3):
        play.steps(30)
        recording.commit()
        if recording.batch_id == 1:
            updater.update()

    assert drawn(tmp_path).findings == []
