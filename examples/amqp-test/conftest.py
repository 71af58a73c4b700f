"""The tests run in memory, where half an hour passes at once; or on a RabbitMQ, in real time.

pytest                                        in memory
AMQP_URL=amqp://localhost pytest              on a real RabbitMQ; "half an hour" is a second
"""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pika
import pytest

if TYPE_CHECKING:
    from streaming.testing.broker import TestBroker

QUEUES = ("orders", "retry", "parked")


class Broker(Protocol):
    """What the tests need of a broker."""

    url: str
    retry_after_ms: int

    def half_an_hour_passes(self) -> None:
        """Let retries become due, and consumers react."""

    def bodies(self, queue: str) -> list[bytes]:
        """The messages of a queue; they may be taken out of it."""


class InMemory:
    """The broker of dlx-stream's pytest plugin."""

    retry_after_ms = 1_800_000

    def __init__(self, broker: "TestBroker") -> None:
        self.url = broker.url
        self._broker = broker

    def half_an_hour_passes(self) -> None:
        """See `Broker`."""
        self._broker.advance("30 minutes")

    def bodies(self, queue: str) -> list[bytes]:
        """See `Broker`."""
        self._broker.settle()
        return [message.body for message in self._broker.messages(queue)]


class Real:
    """A RabbitMQ."""

    retry_after_ms = 1000

    def __init__(self, url: str) -> None:
        self.url = url

    def half_an_hour_passes(self) -> None:
        """See `Broker`."""
        time.sleep(1.5)

    def bodies(self, queue: str) -> list[bytes]:
        """See `Broker`."""
        time.sleep(0.5)
        found: list[bytes] = []
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            channel = connection.channel()
            while (got := channel.basic_get(queue, auto_ack=True))[2] is not None:
                found.append(got[2])
        return found


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    url = os.environ.get("AMQP_URL")
    if url is None:
        yield InMemory(request.getfixturevalue("dlx_broker"))
        return
    yield Real(url)
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for queue in QUEUES:
            connection.channel().queue_delete(queue)
