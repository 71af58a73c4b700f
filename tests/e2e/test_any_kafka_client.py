"""Any Kafka client works as a client: kafka-python alone, following the documented wire format.

Topics that exist already (Avro, Protobuf, JSON, text) are mapped by configuration alone. Each
message dies once, so every header has come through two queues.
"""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer

from streaming.config import InputSettings, RecordHeader, RecordKey, TopicMapping
from streaming.config.outbound import DeadLetterTopicSettings
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CLOUD_EVENT = [
    ("ce_specversion", b"1.0"),
    ("ce_type", b"com.example.order.created"),
    ("ce_source", "/bestellungen/münchen".encode()),
    ("ce_id", b"A234-1234-1234"),
    ("content-type", b"application/avro"),
]
REPEATED = [("tag", b"first"), ("tag", b"\xff\x00 no text"), ("other", b""), ("tag", b"first")]
LIKE_OURS = [("dlx-kind", b"answer"), ("dlx-seq", b"999999"), ("dlx-exchange", b"\xff")]
OWN = [("traceparent", TRACE), *CLOUD_EVENT, *REPEATED]

AVRO = bytes.fromhex("0000000007") + b"\x06\x0aorder\x02\x80\x01"  # magic, schema id, fields
PROTOBUF = b"\x08\x96\x01\x12\x07testing\x1a\x00"
JSON = b'{"id": 7, "total": 1e2}\n'
TEXT = "Käse; 3 Stück".encode("latin-1")


class Sent(NamedTuple):
    """A sent record, and the routing key of its message."""

    topic: str
    body: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]]
    routing_key: bytes


class Client:
    """A producer and a consumer of kafka-python."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._producer = KafkaProducer(bootstrap_servers=pipeline.servers)
        outbound = pipeline.config.outbound_topics()[("/", "guest")]
        self._consumer = KafkaConsumer(
            outbound, bootstrap_servers=pipeline.servers, auto_offset_reset="earliest"
        )

    def send(self, topic: str, value: bytes, headers: list[Any], key: bytes | None = None) -> None:
        self._producer.send(topic, value, key=key, headers=headers).get(timeout=30)

    def command(self, **members: Any) -> None:
        op = [("dlx-op", members["op"].encode())]
        self.send(self.pipeline.commands, json.dumps(members).encode(), op)

    def deliveries(self, count: int) -> list[Any]:
        """The next deliveries."""
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} deliveries"
            assert not self.pipeline.query("quarantine", "cause, detail", "1")
            for records in self._consumer.poll(timeout_ms=500).values():
                found += [one for one in records if ("dlx-kind", b"delivery") in one.headers]
        return found

    def letters(self, count: int) -> list[Any]:
        """The first records of the topic of dead letters."""
        consumer = KafkaConsumer(
            self.pipeline.config.outbound.dead_letters.topic,
            bootstrap_servers=self.pipeline.servers,
            auto_offset_reset="earliest",
        )
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} dead letters"
            for records in consumer.poll(timeout_ms=500).values():
                found += records
        consumer.close()
        return found

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


@pytest.fixture
def topics(new_topic: Any) -> list[str]:
    return [new_topic(partitions=2) for _ in range(3)]


@pytest.fixture
def client(tmp_path: Path, embedded_kafka: Any, spark: Any, topics: list[str]) -> Iterator[Client]:
    by_key, by_header, literal = topics
    mappings = {
        by_key: TopicMapping(exchange="orders", routing_key=RecordKey()),
        by_header: TopicMapping(
            exchange=RecordHeader("exchange", otherwise="orders"),
            routing_key=RecordHeader("ce_type", otherwise="none"),
        ),
        literal: TopicMapping(exchange="orders", routing_key="legacy.text"),
    }
    inputs = [InputSettings(topic=topic, mapping=mapping) for topic, mapping in mappings.items()]
    letters = DeadLetterTopicSettings(topic=f"letters-{uuid.uuid4().hex[:8]}")
    pipeline = Pipeline(
        tmp_path,
        embedded_kafka.bootstrap_servers,
        inputs=inputs,
        outbound={"dead_letters": letters},
    )
    pipeline.start(spark)
    client = Client(pipeline)
    yield client
    client.close()
    pipeline.stop()


def own_headers(record: Any) -> list[tuple[str, bytes]]:
    return [(name, value) for name, value in record.headers if not name.startswith("dlx-")]


def test_bodies_and_headers_are_equal_byte_for_byte_after_every_hop(client, topics):
    by_key, by_header, literal = topics
    client.command(op="declare_exchange", exchange={"name": "orders", "type": "topic"})
    client.command(op="declare_exchange", exchange={"name": "dead", "type": "fanout"})
    arguments = {"x-dead-letter-exchange": "dead"}
    client.command(op="declare_queue", queue={"name": "work", "arguments": arguments})
    client.command(op="declare_queue", queue={"name": "dlq"})
    client.command(
        op="bind", binding={"source": "orders", "destination": "work", "routing_key": "#"}
    )
    client.command(op="bind", binding={"source": "dead", "destination": "dlq"})
    client.pipeline.until(lambda: sum(batch.events for batch in client.pipeline.batches) >= 6)
    ours = [("dlx-exchange", b"orders"), ("dlx-routing-key", b"wire")]
    sent = [
        Sent(by_key, AVRO, b"order.eu", OWN, b"order.eu"),
        Sent(by_header, PROTOBUF, b"\x00\xff", OWN, b"com.example.order.created"),
        Sent(by_header, JSON, None, [("exchange", b"orders"), *REPEATED], b"none"),
        Sent(literal, TEXT, None, [], b"legacy.text"),
        Sent(by_key, TEXT, b"copied", [*LIKE_OURS, *REPEATED, *LIKE_OURS], b"copied"),
        Sent(client.pipeline.publishes, b"", None, [*REPEATED, *ours, *CLOUD_EVENT], b"wire"),
    ]

    for one in sent:
        client.send(one.topic, one.body, one.headers, one.key)
    client.pipeline.until(lambda: client.pipeline.resident() == len(sent))
    client.command(op="get", queue="work", count=9, channel="w", **{"as": "w"})
    first = client.deliveries(len(sent))
    client.command(op="reject", refs=[f"w/{place}" for place in range(len(sent))], channel="w")
    client.command(op="get", queue="dlq", count=9, channel="w", auto_ack=True)
    second = client.deliveries(len(sent))

    expected = sorted(
        (one.body, one.routing_key, [h for h in one.headers if not h[0].startswith("dlx-")])
        for one in sent
    )
    for delivered in (first, second):
        assert expected == sorted(
            (one.value or b"", dict(one.headers)["dlx-routing-key"], own_headers(one))
            for one in delivered
        )
        for one in delivered:
            names = [name for name, _value in one.headers if name.startswith("dlx-")]
            assert len(names) == len(set(names)), "a mapped topic's headers pass for ours"
    deaths = [json.loads(dict(one.headers)["dlx-headers"])["x-death"] for one in second]
    assert [(len(death), death[0]["reason"]) for death in deaths] == [(1, "rejected")] * len(sent)
    table = ("dead_letters", "body, kafka_headers", "seq")
    client.pipeline.until(lambda: len(client.pipeline.query(*table)) == len(sent))
    kept = client.pipeline.query(*table)
    arrived = sorted((one.body, [h for h in one.headers if h not in ours]) for one in sent)
    assert arrived == sorted(
        (body, [(h["key"], h["value"]) for h in own or ()]) for body, own in kept
    )
    letters = client.letters(len(sent))
    connect = "__connect.errors."
    assert expected == sorted(
        (
            one.value,
            dict(one.headers)["dlx-routing-key"],
            [h for h in own_headers(one) if not h[0].startswith(connect)],
        )
        for one in letters
    )
    errors = [dict(one.headers) for one in letters]
    assert {one[f"{connect}exception.class.name"] for one in errors} == {b"rejected"}
    assert {one[f"{connect}topic"].decode() for one in errors} == {one.topic for one in sent}
    numbers = [int(one["dlx-seq"]) for one in errors]
    assert numbers == sorted(set(numbers))


def test_a_record_without_a_fitting_mapping_is_quarantined_unchanged(client, topics):
    client.send(topics[0], AVRO, OWN)

    client.pipeline.until(lambda: client.pipeline.query("quarantine", "1", "1"))

    [(cause, detail, value, headers)] = client.pipeline.query(
        "quarantine", "cause, detail, record_value, kafka_headers", "1"
    )
    assert (cause, value) == ("unmapped", AVRO)
    assert f"inputs.{topics[0]}.mapping.routing_key" in detail
    assert [(header["key"], header["value"]) for header in headers] == OWN
