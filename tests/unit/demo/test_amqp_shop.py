"""The demo's shop as programs with pika, at a broker in memory."""

import threading

import pika
import pytest

from streaming.demo.amqp_shop import AmqpShop
from streaming.demo.errors import DemoError
from streaming.demo.order_process import (
    BAD_RELEASE,
    DEFINITIONS,
    FAILED_INVOICES,
    INVOICES,
    QUEUES,
    VHOST,
)
from streaming.demo.traffic import Traffic
from streaming.testing.broker import TestBroker
from tests.fixtures.waiting import wait_until


@pytest.fixture
def broker():
    started = TestBroker().start()
    yield started
    started.stop()


def test_the_shop_publishes_and_its_workers_settle_until_it_stops(broker):
    broker.load({**DEFINITIONS, "users": [], "permissions": []})
    traffic = Traffic(AmqpShop(broker.add_vhost(VHOST), 0))
    traffic.deploy(BAD_RELEASE)

    traffic.start()
    counts = traffic.counters.snapshot

    def some_orders_died():
        traffic.raise_failure()
        return counts().get("invoices rejected", 0) >= 2 and counts().get("acked", 0) >= 10

    wait_until(some_orders_died, lambda: str(counts()))
    traffic.close_shop()
    traffic.stop()
    traffic.raise_failure()

    found = broker.queues(VHOST)
    assert found.keys() == QUEUES.keys()
    assert counts()["published"] == counts()["confirmed"]
    assert found[FAILED_INVOICES].ready == counts()["invoices rejected"]
    assert {each.unacked for each in found.values()} == {0}
    assert {each.consumers for each in found.values()} == {0}
    (first, *_) = broker.messages(FAILED_INVOICES, VHOST)
    assert first.headers["currency"] == "JPY"
    assert first.x_death[0]["queue"] == INVOICES


def test_a_topology_that_the_broker_refuses_is_the_end(broker):
    url = broker.add_vhost(VHOST)
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().queue_declare(INVOICES, durable=True)

    with pytest.raises(DemoError, match="refused the demo's topology: PRECONDITION_FAILED"):
        AmqpShop(url, 0).open(threading.Event())
