"""The lowest offset of any message that may still be in a queue."""

import pytest

from streaming.broker import commands
from streaming.contents.lowest_resident import lowest_resident
from streaming.contents.updater import ContentsUpdater
from streaming.storage.location import Location
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording


@pytest.fixture
def recorded(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dlq")
    broker.queue("dlq")
    for number in range(4):
        broker.publish("", "work", f"order {number}")
    return broker, recording


def bounds(recording):
    ContentsUpdater(Location(recording.root)).update()
    return lowest_resident(Location(recording.root), QUERY_ID, {})


def test_the_lowest_resident_offset_is_that_of_the_oldest_message_in_any_queue(recorded):
    _broker, recording = recorded
    recording.commit()

    assert bounds(recording) == {(0, 0): 0}


def test_a_dead_lettered_message_is_resident_in_its_new_queue(recorded):
    broker, recording = recorded
    broker.do(commands.Get(queue="work", count=2, label="g", channel="c0"))
    broker.do(commands.Reject(refs=("g/0",)))
    broker.do(commands.Ack(refs=("g/1",)))
    recording.commit()

    assert bounds(recording) == {(0, 0): 0}

    broker.do(commands.Purge(queue="dlq"))
    recording.commit()

    assert bounds(recording) == {(0, 0): 2}


def test_the_lowest_resident_offset_is_unknown_before_the_first_contents(recorded):
    _broker, recording = recorded
    recording.commit()

    assert lowest_resident(Location(recording.root), QUERY_ID, {}) == {}
