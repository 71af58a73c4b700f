"""Recorded sessions play as RabbitMQ played them, however late a broker answers."""

from functools import partial

import pytest

from streaming.amqp.clocks import ManualClock
from streaming.amqp.memory import MemoryBroker
from streaming.scenario.document import VERSIONS
from tests.delayed_broker import DelayedBroker
from tests.recordings.sessions import SEEDS, recorded_sessions, written
from tests.sessions.comparing import difference
from tests.sessions.in_memory import MemoryWire
from tests.sessions.player import Player


def at_once(compat, _number):
    return MemoryBroker(ManualClock(), compat)


def later(compat, number):
    return DelayedBroker(ManualClock(), compat, number)


def wire(broker, _url):
    return MemoryWire(broker)


@pytest.mark.parametrize("make", [at_once, later])
@pytest.mark.parametrize("compat", VERSIONS)
def test_a_recorded_session_plays_as_rabbitmq_played_it(compat, make):
    for number, (name, recorded) in enumerate(recorded_sessions().items()):
        record = recorded.records.get(VERSIONS[compat])
        if record is None:
            continue
        broker = make(compat, number)
        broker.server.follows_wall_clock = False
        player = Player("amqp://broker/%2F", partial(wire, broker), at_once=True)
        steps = recorded.played()

        found = difference(steps, record, player.play(steps))

        assert found is None, f"{name}:\n{found}"


def test_every_session_is_recorded_on_both_versions():
    sessions = recorded_sessions()
    missing = [name for name, one in sessions.items() if set(one.records) != {*VERSIONS.values()}]

    assert len(sessions) == len(written()) + len(SEEDS)
    assert missing == []
