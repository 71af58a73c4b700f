"""Random sessions on brokers in memory: however late one answers, every frame is the same."""

import pytest

from tests.amqp_client import memory_broker
from tests.delayed_broker import delayed_broker
from tests.sessions.comparing import difference
from tests.sessions.in_memory import MemoryWire
from tests.sessions.kinds import KINDS, session
from tests.sessions.player import Player


def played(broker, steps):
    def pass_time(seconds):
        broker.clock.move_to(broker.clock.now_ms() + round(seconds * 1000))
        broker.server.advance()

    player = Player("amqp://broker/%2F", lambda _url: MemoryWire(broker), pass_time)
    return player.play(steps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_random_session_is_answered_later_as_it_is_answered_at_once(seed, kind):
    steps = session(seed, kind=kind)
    at_once = played(memory_broker(), steps)

    for delays in (None, seed):
        found = difference(steps, at_once, played(delayed_broker(delays), steps))

        assert found is None, f"\n{found}"
