from collections.abc import Callable, Iterator

import pika
import pytest
from conftest import Broker
from orders import MAX_ATTEMPTS, OrderService

Start = Callable[[Callable[[bytes], None]], None]


@pytest.fixture
def start(broker: Broker) -> Iterator[Start]:
    services: list[OrderService] = []

    def start_service(book: Callable[[bytes], None]) -> None:
        service = OrderService(broker.url, book, broker.retry_after_ms)
        services.append(service)
        service.start()

    yield start_service
    for service in services:
        service.stop()


def publish(broker: Broker, body: bytes) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "orders", body, mandatory=True)


def test_an_order_is_booked(broker: Broker, start: Start) -> None:
    booked: list[bytes] = []
    start(booked.append)

    publish(broker, b"order 17")

    assert broker.bodies("orders") == []
    assert booked == [b"order 17"]


def test_a_failure_is_tried_again_half_an_hour_later(broker: Broker, start: Start) -> None:
    attempts: list[bytes] = []

    def fail_once(order: bytes) -> None:
        attempts.append(order)
        if len(attempts) == 1:
            raise RuntimeError("the database is away")

    start(fail_once)
    publish(broker, b"order 17")
    broker.half_an_hour_passes()

    assert broker.bodies("parked") == []
    assert attempts == [b"order 17", b"order 17"]


def test_an_order_that_fails_five_times_is_parked(broker: Broker, start: Start) -> None:
    attempts: list[bytes] = []

    def fail(order: bytes) -> None:
        attempts.append(order)
        raise RuntimeError("no such customer")

    start(fail)
    publish(broker, b"order 17")
    for _ in range(MAX_ATTEMPTS):
        broker.half_an_hour_passes()

    assert broker.bodies("parked") == [b"order 17"]
    assert len(attempts) == MAX_ATTEMPTS
