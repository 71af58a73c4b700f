"""The shop against librdkafka's mock cluster: its records, and the effects of replies."""

import json
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streaming.demo.client_setup import Addresses, DemoError, TrafficCounters
from streaming.demo.order_process import TOPOLOGY
from streaming.demo.shop_client import ShopClient

TIMEOUT_S = 20.0


@pytest.fixture
def cluster():
    """A producer with a mock cluster that has the three topics."""
    holder = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
    for topic in ("publishes", "commands", "outbound"):
        holder.produce(topic, b"")
    holder.flush(TIMEOUT_S)
    return holder


@pytest.fixture
def addresses(cluster):
    broker = next(iter(cluster.list_topics(timeout=TIMEOUT_S).brokers.values()))
    kafka = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    return Addresses(kafka, "publishes", "commands", "outbound")


@pytest.fixture
def counters():
    return TrafficCounters()


@pytest.fixture
def shop(addresses, counters):
    opened = ShopClient(addresses, counters)
    yield opened
    opened.close()


def written(addresses, topic):
    """The records that the shop wrote to a topic; the mock spreads them over partitions."""
    consumer = Consumer({**addresses.kafka, "group.id": "test", "log_level": 0})
    partitions = [
        TopicPartition(topic, number, 0)
        for number in consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    ]
    highs = [consumer.get_watermark_offsets(each, timeout=TIMEOUT_S)[1] for each in partitions]
    consumer.assign(partitions)
    found: list[Message] = []
    ends_s = time.monotonic() + TIMEOUT_S
    while len(found) < sum(highs) and time.monotonic() < ends_s:
        found += consumer.consume(sum(highs), 0.5)
    consumer.close()
    return [message for message in found if message.value()]


def ops(addresses):
    """The number of commands of each kind that the shop wrote."""
    records = written(addresses, "commands")
    return Counter(json.loads(record.value() or b"{}")["op"] for record in records)


def reply(cluster, seq, kind, document, channel=""):
    headers = {"dlx-kind": kind, "dlx-seq": str(seq), "dlx-channel": channel}
    cluster.produce(
        "outbound",
        json.dumps(document).encode(),
        partition=0,
        headers=[(name, value.encode()) for name, value in headers.items()],
    )
    cluster.flush(TIMEOUT_S)


def until(condition):
    ends_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < ends_s, "it never came true"


@pytest.fixture
def open_shop(shop, cluster):
    """A shop whose topology is declared."""
    reply_ids = shop.declare_topology()
    for seq, reply_id in enumerate(reply_ids):
        reply(cluster, seq, "answer", {"reply_id": reply_id, "op": "x", "result": {}})
    until(lambda: shop.is_declared(reply_ids))
    shop.open()
    return shop


def test_the_shop_declares_its_topology_and_reads_the_replies(open_shop, addresses):
    assert open_shop.topics_exist()

    open_shop.wait_for_confirms()

    declared = Counter(document["op"] for document in TOPOLOGY)
    assert ops(addresses) == declared + Counter(close_channel=4, consume=3)


def test_a_refused_declaration_ends_the_demo(shop, cluster):
    reply_ids = shop.declare_topology()
    error = {"code": 406, "text": "PRECONDITION_FAILED - inequivalent arg"}
    reply(cluster, 0, "answer", {"reply_id": reply_ids[0], "op": "declare_queue", "error": error})

    with pytest.raises(DemoError, match="406 PRECONDITION_FAILED"):
        until(lambda: shop.is_declared(reply_ids))


def test_the_shop_publishes_orders_and_settles_its_deliveries(
    open_shop, cluster, addresses, counters
):
    reply(cluster, 100, "delivery", {"order": 1, "region": "eu"}, "demo-payments")
    reply(cluster, 101, "delivery", {"order": 8, "region": "eu"}, "demo-payments")
    reply(cluster, 102, "confirm", {"ack": True})

    until(lambda: open_shop.work(sell=True) or counters.snapshot().keys() >= {"acked", "rejected"})
    open_shop.close_channels()
    open_shop.wait_for_confirms()

    counted = counters.snapshot()
    assert (counted["acked"], counted["rejected"], counted["confirmed"]) == (1, 1, 1)
    assert counted["published"] == len(written(addresses, "publishes"))
    assert ops(addresses) >= Counter(ack=1, reject=1, close_channel=7)


def test_an_end_is_asked_again_while_a_partition_has_no_leader(monkeypatch):
    answers = [KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)), (0, 7)]

    class Asked:
        def get_watermark_offsets(self, _place, **_options):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    client = object.__new__(ShopClient)
    monkeypatch.setattr(client, "_consumer", Asked(), raising=False)

    assert client._end("dlx.outbound", 0) == 7
    assert answers == []
