"""Random sessions on brokers in memory: however late one answers, every frame is the same."""

import pytest

from tests.amqp_client import memory_broker
from tests.delayed_broker import delayed_broker
from tests.sessions.comparing import difference
from tests.sessions.in_memory import MemoryWire
from tests.sessions.player import Player
from tests.sessions.steps import session


def played(broker, steps):
    return Player("amqp://broker/%2F", lambda _url: MemoryWire(broker)).play(steps)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_session_is_answered_later_as_it_is_answered_at_once(seed):
    steps = session(seed)
    at_once = played(memory_broker(), steps)

    for delays in (None, seed):
        found = difference(steps, at_once, played(delayed_broker(delays), steps))

        assert found is None, f"\n{found}"
