"""What a publisher does when the job says that publishers must stop (D9), on real Kafka.

The notices are written by the test, as the job writes them; tests/e2e/test_flow_control.py shows
that the job does.
"""

import threading

import pytest
from confluent_kafka import Producer

from streaming.client import Address, Connection, FlowStoppedError, NoAnswerError
from tests.fixtures.services import new_topic
from tests.fixtures.waiting import WAIT_S, join

__all__ = ["new_topic"]


class Gate:
    """Says what the job would say."""

    def __init__(self, address: Address) -> None:
        self._outbound = address.outbound
        self._producer = Producer({"bootstrap.servers": address.bootstrap, "log_level": 0})

    def say(self, seq: int, *, active: bool) -> None:
        headers: list[tuple[str, str | bytes | None]] = [
            ("dlx-kind", b"flow"),
            ("dlx-vhost", b"/"),
            ("dlx-lane", b"-1"),
            ("dlx-seq", str(seq).encode()),
        ]
        value = b'{"type":"flow","active":' + (b"true}" if active else b"false}")
        self._producer.produce(self._outbound, value, headers=headers)
        assert self._producer.flush(WAIT_S) == 0


@pytest.fixture
def connection(embedded_kafka, new_topic):
    address = Address(
        bootstrap=embedded_kafka.bootstrap_servers,
        publishes=new_topic(),
        commands=new_topic(),
        outbound=new_topic(),
    )
    with Connection(address) as connection:
        yield connection


def until(connection, *, flowing):
    waited = threading.Event()
    for _ in range(int(WAIT_S * 20)):
        if connection.is_flowing == flowing:
            return
        waited.wait(0.05)
    raise AssertionError(f"flowing never became {flowing}")


def test_a_publisher_raises_or_waits_as_configured(connection):
    gate = Gate(connection.address)
    raising = connection.publisher(confirms=False, on_flow="raise")
    waiting = connection.publisher(confirms=False)
    gate.say(1, active=False)
    until(connection, flowing=False)
    published = threading.Event()

    def publish():
        waiting.publish("", "q", b"waits").result(WAIT_S)
        published.set()

    thread = threading.Thread(target=publish)
    thread.start()
    with pytest.raises(FlowStoppedError, match="until consumers take messages out"):
        raising.publish("", "q", b"x")
    assert not published.is_set()

    gate.say(2, active=True)
    assert published.wait(WAIT_S)
    join(thread)
    gate.say(1, active=False)  # sent again by a job that started again: known already
    raising.publish("", "q", b"flows").result(WAIT_S)


def test_a_publisher_that_waits_for_a_dead_job_gets_an_error(connection):
    Gate(connection.address).say(1, active=False)
    until(connection, flowing=False)

    with pytest.raises(NoAnswerError, match=r"is `dlx run` running\? The message was not sent"):
        connection.publisher().publish("", "q", b"x")
