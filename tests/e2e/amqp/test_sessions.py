"""Random AMQP sessions on the installed RabbitMQ and on our server: every frame is the same."""

from functools import partial

import pytest

from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until
from tests.seeds import seeds
from tests.sessions.comparing import compare
from tests.sessions.kinds import session
from tests.sessions.player import Player


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    port = free_port()
    options = ("--memory", "--port", str(port), "--compat", "3.10")
    server = Process(tmp_path_factory.mktemp("ours"), "amqp", "streaming.cli", "amqp", *options)
    server.start()
    wait_until(lambda: "listening on" in server.log_end(), server.log_end)
    yield f"amqp://guest:guest@{LOOPBACK}:{port}/%2F"
    server.check()
    server.stop()
    assert "Traceback" not in server.log_end()


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_a_random_session_is_answered_as_rabbitmq_answers_it(rabbitmq, ours, seed):
    found = compare(session(seed), partial(Player, rabbitmq), partial(Player, ours))

    assert found is None, f"\n{found}"
