"""Outbound records too large for their topic are truncated, and the stream continues (D11)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from pyspark.errors import StreamingQueryException

from streaming.config import FlowSettings, KafkaSettings
from streaming.config.outbound import outbound_topic_bytes
from tests.fixtures.pipeline import Pipeline

SMALL_TOPIC_BYTES = 20_000
COMMAND_BYTES = 4_000_000
BODY_BYTES = 60_000
CC = [f"{number:02}-{'k' * 200}" for number in range(60)]
HOPS = 110
"""Each death adds the CC keys to x-death, which then exceeds the limit of outbound records."""


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Iterator[Pipeline]:
    """A job whose outbound topic was created by another program, for small records."""
    servers = embedded_kafka.bootstrap_servers
    pipeline = Pipeline(
        tmp_path,
        servers,
        kafka=KafkaSettings(bootstrap_servers=(servers,), max_message_bytes=200_000),
        flow=FlowSettings(max_body_bytes=BODY_BYTES),
    )
    topics = {outbound(pipeline): SMALL_TOPIC_BYTES, pipeline.commands: COMMAND_BYTES}
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    made = admin.create_topics(
        [
            NewTopic(name, 1, 1, config={"max.message.bytes": str(most)})
            for name, most in topics.items()
        ]
    )
    for future in made.values():
        future.result()
    yield pipeline
    pipeline.stop()


def outbound(pipeline: Pipeline) -> str:
    return pipeline.config.outbound_topics()[("/", "guest")]


def limit(pipeline: Pipeline, change: int | None = None) -> int:
    """The outbound topic's max.message.bytes, after an optional change."""
    admin = AdminClient({"bootstrap.servers": pipeline.servers, "log_level": 0})
    entries = []
    if change is not None:
        entry = ConfigEntry(
            "max.message.bytes", str(change), incremental_operation=AlterConfigOpType.SET
        )
        entries.append(entry)
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, outbound(pipeline), incremental_configs=entries or None
    )
    if entries:
        [altered] = admin.incremental_alter_configs([resource]).values()
        altered.result()
    [described] = admin.describe_configs([resource]).values()
    return int(described.result()["max.message.bytes"].value)


def long_chain() -> dict[str, Any]:
    """A chain of queues in which a message dies at once, ending in `last`."""
    names = [f"hop-{number}" for number in range(HOPS)]
    targets = [*names[1:], "last"]
    queues = [
        {"name": name, "arguments": {"x-message-ttl": 0, "x-dead-letter-exchange": f"to-{target}"}}
        for name, target in zip(names, targets, strict=True)
    ]
    everywhere = [*names, "last"]
    return {
        "queues": [*queues, {"name": "last", "arguments": {}}, {"name": "plain", "arguments": {}}],
        "exchanges": [{"name": f"to-{name}", "type": "fanout"} for name in everywhere],
        "bindings": [
            {"source": f"to-{name}", "destination": name, "destination_type": "queue"}
            for name in everywhere
        ],
    }


def test_a_delivery_with_a_history_too_long_for_its_topic_is_truncated(pipeline, spark):
    pipeline.start(spark)
    wanted = outbound_topic_bytes(pipeline.config.flow, pipeline.config.kafka)
    assert limit(pipeline) == wanted
    pipeline.declare(op="import_definitions", definitions=long_chain())
    body = b"b" * BODY_BYTES
    headers = json.dumps({"CC": CC}).encode()
    pipeline.publish(body, exchange=b"to-hop-0", headers=headers, properties=b'{"type": "order"}')
    pipeline.publish(b"after", routing_key=b"last")
    pipeline.until(lambda: pipeline.resident() == 2)

    pipeline.declare(op="get", queue="last", count=2, **{"as": "g"})
    [(named, value), (_named, after)] = pipeline.outbound(2, "delivery")

    assert (value, after) == (body, b"after")
    left_out = json.loads(named["dlx-left-out"])
    deaths = json.loads(named["dlx-headers"])["x-death"]
    assert left_out == {"x-death": HOPS - len(deaths)}
    assert left_out["x-death"] > 0
    assert [death["queue"] for death in deaths] == [
        f"hop-{HOPS - 1 - number}" for number in range(len(deaths))
    ]
    assert json.loads(named["dlx-headers"])["x-first-death-queue"] == "hop-0"
    assert sum(len(name) + len(text) for name, text in named.items()) + BODY_BYTES < wanted
    place = [int(named[f"dlx-{part}"]) for part in ("topic-number", "partition", "offset")]
    [row] = pipeline.query(
        "dead_letters",
        "message_id.topic_number, message_id.partition, message_id.offset, len(x_death)",
        "seq desc limit 1",
    )
    assert row == (*place, HOPS)
    [cut] = cut_records(pipeline)
    assert cut["count"] == 1
    assert (cut["first"][0]["message"], cut["first"][0]["left_out"]) == (place, left_out)

    pipeline.declare(op="ack", refs=[named["dlx-delivery-id"].decode()], reply_id="settled")
    answers = [json.loads(value) for _named, value in pipeline.outbound(3, "answer")]
    [settled] = [each for each in answers if each["reply_id"] == "settled"]
    assert settled["result"] == {}


def cut_records(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The numbers of truncated records in the batch rows."""
    rows = pipeline.query(
        "events", "detail", "batch_id", "detail, kind, batch_id having kind='batch'"
    )
    details = [json.loads(detail) for (detail,) in rows]
    return [detail["cut_records"] for detail in details if detail["cut_records"]]


def test_an_answer_too_large_for_its_topic_is_truncated(pipeline, spark):
    pipeline.start(spark)
    refs = [f"nowhere/{number}" for number in range(150_000)]
    command = json.dumps({"op": "ack", "refs": refs, "reply_id": "many"}).encode()
    large = Producer(
        {"bootstrap.servers": pipeline.servers, "log_level": 0, "message.max.bytes": COMMAND_BYTES}
    )

    large.produce(pipeline.commands, command, headers=[("dlx-op", b"ack")])
    assert large.flush(30) == 0
    [(named, value)] = pipeline.outbound(1, "answer")

    missing = json.loads(value)["result"]["missing"]
    assert json.loads(value)["reply_id"] == "many"
    assert missing == refs[: len(missing)]
    assert json.loads(named["dlx-left-out"]) == {"missing": len(refs) - len(missing)}
    pipeline.until(lambda: cut_records(pipeline))
    pipeline.declare(op="declare_queue", queue={"name": "next"})


def test_a_lowered_limit_is_raised_by_the_next_start(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare(op="declare_queue", queue={"name": "plain"})
    bodies = [b"small", b"b" * BODY_BYTES, b"small too"]
    for body in bodies:
        pipeline.publish(body, routing_key=b"plain")
    pipeline.until(lambda: pipeline.resident() == len(bodies))
    limit(pipeline, SMALL_TOPIC_BYTES)

    pipeline.command(op="get", queue="plain", count=len(bodies), **{"as": "g"})
    with pytest.raises(StreamingQueryException, match="size too large"):
        pipeline.until(lambda: False)
    pipeline.stop()
    pipeline.start(spark)

    assert [value for _named, value in pipeline.outbound(len(bodies), "delivery")] == bodies
