"""Finding the topics of a vhost and user, on librdkafka's mock cluster."""

import time

import msgspec
import pytest
from confluent_kafka import Producer

from streaming.client import ClientError
from streaming.client._transport.discovery import SIMULTANEOUS_MS, find_address
from streaming.protocol.addressing import DEFAULT_OUTBOUND, JobAddress, alive_topic, outbound_topic

TIMEOUT_S = 20.0
SHOP = JobAddress(
    vhost="shop",
    user="clerk",
    outbound="answers",
    commands="orders.commands",
    publishes="orders",
    transactions="orders.tx",
    lanes=4,
    max_body_bytes=5,
    wire_version=1,
)


class Cluster:
    """A mock cluster, and the heartbeats in it."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": ""})

    @property
    def servers(self) -> str:
        broker = next(iter(self._producer.list_topics(timeout=TIMEOUT_S).brokers.values()))
        return f"{broker.host}:{broker.port}"

    def beat(self, address: JobAddress, age_ms: int = 0) -> None:
        document = {"type": "alive", "active": True, "address": msgspec.to_builtins(address)}
        self.write(alive_topic(address.outbound), msgspec.json.encode(document), age_ms)

    def write(self, topic: str, value: bytes, age_ms: int = 0) -> None:
        now_ms = int(time.time() * 1000)
        self._producer.produce(topic, value, partition=0, timestamp=now_ms - age_ms)
        self._producer.flush(TIMEOUT_S)

    def find(self, user: str, vhost: str):
        return find_address(self.servers, user, vhost, {"client.id": "mine"}, TIMEOUT_S)


@pytest.fixture
def cluster():
    return Cluster()


def test_everything_that_the_heartbeat_says_is_used(cluster):
    cluster.beat(SHOP)

    address = cluster.find("clerk", "shop")

    assert (address.publishes, address.commands, address.transactions, address.outbound) == (
        "orders",
        "orders.commands",
        "orders.tx",
        "answers",
    )
    assert (address.vhost, address.lanes, address.max_body_bytes) == ("shop", 4, 5)
    assert address.kafka == {"client.id": "mine"}


def test_the_last_heartbeat_counts(cluster):
    cluster.beat(msgspec.structs.replace(SHOP, publishes="before"))
    cluster.beat(SHOP)

    assert cluster.find("clerk", "shop").publishes == "orders"


def test_a_job_without_addresses_in_its_heartbeat_has_default_names(cluster):
    outbound = outbound_topic(DEFAULT_OUTBOUND, "/", "guest")
    cluster.write(outbound, b"{}")
    cluster.write(alive_topic(outbound), b'{"type": "alive", "active": true}')
    cluster.write("noise.alive", b"no JSON")

    address = cluster.find("guest", "/")

    assert (address.outbound, address.commands) == (outbound, "dlx.commands")


def test_a_job_that_runs_is_preferred_to_one_that_has_stopped(cluster):
    cluster.beat(SHOP)
    stopped = msgspec.structs.replace(SHOP, outbound="old", publishes="old")
    cluster.beat(stopped, age_ms=SIMULTANEOUS_MS * 10)

    assert cluster.find("clerk", "shop").publishes == "orders"


def test_two_jobs_that_run_are_named(cluster):
    cluster.beat(SHOP)
    cluster.beat(msgspec.structs.replace(SHOP, outbound="second"))

    with pytest.raises(ClientError, match=r"several jobs .* answers, second"):
        cluster.find("clerk", "shop")


@pytest.mark.parametrize(
    ("user", "vhost", "words"),
    [
        ("clark", "shop", "user 'clark' .*'clerk'"),
        ("clerk", "shopp", "vhost 'shopp' .*'shop'"),
        ("clerk", "nothing like it", "vhost 'nothing like it' .there are 'shop'"),
    ],
)
def test_what_no_job_serves_is_refused_with_what_there_is(cluster, user, vhost, words):
    cluster.beat(SHOP)

    with pytest.raises(ClientError, match=words):
        cluster.find(user, vhost)


def test_a_kafka_without_a_job_is_refused(cluster):
    with pytest.raises(ClientError, match=r"no topic dlx\.out\._2f\.guest.*dlx run"):
        cluster.find("guest", "/")


def test_a_user_without_a_topic_for_commands_is_refused(cluster):
    cluster.beat(msgspec.structs.replace(SHOP, commands=None))

    with pytest.raises(ClientError, match="commands"):
        cluster.find("clerk", "shop")
