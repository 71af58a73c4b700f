"""The demo's traffic while no job answers. tests/e2e/test_demo.py has one that does."""

import io

import pytest
from rich.console import Console

from streaming.client.address import Address
from streaming.config import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.demo.amqp_shop import AmqpShop
from streaming.demo.kafka_shop import KafkaShop
from streaming.demo.traffic import Traffic, run_traffic_only, traffic_vhost
from streaming.waiting import Flag
from topology.errors import InvalidDocumentError

NOWHERE = Address(bootstrap="127.0.0.1:1", kafka={"log_level": "0"})


@pytest.mark.parametrize(
    "shop",
    [KafkaShop(NOWHERE), AmqpShop("amqp://127.0.0.1:1/shop", 0)],
    ids=["kafka", "amqp"],
)
def test_traffic_waits_for_its_broker_and_stops_without_one(shop):
    traffic = Traffic(shop)

    traffic.start()
    traffic.stop()
    traffic.raise_failure()

    assert not traffic.opened.is_set()
    assert not traffic.is_running
    assert traffic.counters.snapshot() == {}


def test_traffic_for_another_job_says_what_it_waits_for():
    out = io.StringIO()
    stopping = Flag()
    stopping.set()

    run_traffic_only(NOWHERE, 1, stopping, Console(file=out, width=100))

    assert out.getvalue().splitlines() == [
        "waiting for the job and its topics on 127.0.0.1:1",
        "closed: 0 published, 0 confirmed, 0 acked, 0 rejected, 0 requeued",
    ]


KAFKA, RABBITMQ = VhostSettings(), VhostSettings(sequenced=True)


@pytest.mark.parametrize(
    ("vhosts", "chosen"),
    [
        ({"/": KAFKA}, "/"),
        ({"orders": KAFKA, "/": KAFKA}, "/"),
        ({"shop": RABBITMQ, "/": KAFKA}, "/"),
        ({"/": RABBITMQ, "kafka": KAFKA, "more": KAFKA}, "kafka"),
    ],
)
def test_the_traffic_is_in_a_vhost_of_kafkas_clients(vhosts, chosen):
    assert traffic_vhost(JobConfig(vhosts=vhosts)) == chosen


def test_without_a_vhost_for_kafkas_clients_there_is_no_traffic():
    with pytest.raises(InvalidDocumentError, match=r"^vhosts: all are sequenced, .* add a vhost"):
        traffic_vhost(JobConfig(vhosts={"/": RABBITMQ}))
