"""Random sessions on brokers in memory: however late one answers, every frame is the same."""

from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from streaming.management.app import Management
from streaming.management.memory import MemoryFront
from tests.amqp_client import memory_broker
from tests.delayed_broker import delayed_broker
from tests.management_api import GUEST
from tests.seeds import seeds
from tests.sessions.comparing import difference
from tests.sessions.in_memory import MemoryWire
from tests.sessions.kinds import KINDS, WITH_API, session
from tests.sessions.player import Player

SEEDS = seeds(1, 8)
OF_AMQP = [kind for kind in KINDS if kind not in WITH_API]


def played(broker, steps, ask=None):
    def pass_time(seconds):
        broker.clock.move_to(broker.clock.now_ms() + round(seconds * 1000))
        broker.server.advance()

    def connect(url):
        return MemoryWire(broker, urlsplit(url).username or "guest")

    player = Player("amqp://broker/%2F", connect, pass_time, ask=ask)
    return player.play(steps)


@pytest.mark.parametrize("kind", OF_AMQP)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_session_is_answered_later_as_it_is_answered_at_once(seed, kind):
    steps = session(seed, kind=kind)
    at_once = played(memory_broker(), steps)

    for delays in (None, seed):
        found = difference(steps, at_once, played(delayed_broker(delays), steps))

        assert found is None, f"\n{found}"


@pytest.mark.parametrize("kind", sorted(WITH_API))
@pytest.mark.parametrize("seed", SEEDS)
def test_the_management_api_answers_all_that_a_random_session_asks(seed, kind):
    broker = memory_broker()
    management = TestClient(Management(MemoryFront(broker)), client=("127.0.0.1", 50_000))
    statuses = []

    def ask(method, path, document):
        answer = management.request(method, f"/api/{path}", json=document, auth=GUEST)
        statuses.append(answer.status_code)
        return answer.status_code, answer.json() if answer.content else None

    played(broker, session(seed, kind=kind), ask)

    assert set(statuses) <= {200, 201, 204, 400, 404, 405}
    assert {"managed": {200, 204}, "users": {201}}[kind] <= set(statuses)
