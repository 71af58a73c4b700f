"""What test_rabbitmq.py needs of dramatiq's common.py and conftest.py: its archive lacks both."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dramatiq
import pika
import pytest
from dramatiq import Broker, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

RABBITMQ_USERNAME = os.environ["RABBITMQ_USERNAME"]
RABBITMQ_PASSWORD = os.environ["RABBITMQ_PASSWORD"]
RABBITMQ_CREDENTIALS = pika.credentials.PlainCredentials(RABBITMQ_USERNAME, RABBITMQ_PASSWORD)


def skip_unless_rabbit_mq(test: Callable[..., None]) -> Callable[..., None]:
    """There is always a broker."""
    return test


@contextmanager
def worker(broker: Broker, **options: int) -> Iterator[Worker]:
    """A running worker of a broker."""
    running = Worker(broker, **options)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def rabbitmq_broker() -> Iterator[RabbitmqBroker]:
    """A broker with nothing in it."""
    broker = RabbitmqBroker(
        host=os.environ["RABBITMQ_HOST"],
        port=int(os.environ["RABBITMQ_5672_TCP"]),
        max_priority=10,
        credentials=RABBITMQ_CREDENTIALS,
    )
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def rabbitmq_worker(rabbitmq_broker: RabbitmqBroker) -> Iterator[Worker]:
    """A worker of that broker."""
    with worker(rabbitmq_broker, worker_threads=32) as running:
        yield running
