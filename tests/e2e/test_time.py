"""Time with `clock = wall`: deadlines without traffic, wrong clocks, an outage (D4)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.config import InputSettings, TopicMapping
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import wait_until

IN_2099_MS = 4_070_908_800_000
OUTAGE_S = 2.5
TTL_MS = 1_500
QUIET_S = 3.0
HOUR_NS = 3_600_000_000_000


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any, new_topic: Any) -> Iterator[Pipeline]:
    mapping = TopicMapping(exchange="", routing_key="patient")
    foreign = new_topic(
        message_timestamp_before_max_ms=str((1 << 63) - 1),
        message_timestamp_after_max_ms=str((1 << 63) - 1),
    )
    inputs = [InputSettings(topic=foreign, mapping=mapping)]
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers, inputs=inputs)
    yield pipeline
    pipeline.stop()


def happened(pipeline: Pipeline, kind: str) -> list[tuple[Any, ...]]:
    return pipeline.query(
        "events",
        "queue, coalesce(reason, json_extract_string(detail, '$.what'))",
        "seq",
        f"queue, reason, detail, seq, kind having kind = '{kind}'",
    )


def runs_no_batch(pipeline: Pipeline) -> bool:
    """Whether no batch ends for a while; the one that ran when a test looked may."""
    batches = len(pipeline.batches)
    time.sleep(QUIET_S)
    return len(pipeline.batches) == batches


def test_deadlines_fire_without_traffic_and_despite_changed_clocks(pipeline, spark):
    pipeline.start(spark)
    to_late = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
    for name, arguments in (
        ("patient", {"x-message-ttl": 3_600_000}),
        ("late", {}),
        ("hasty", {"x-message-ttl": TTL_MS, **to_late}),
        ("doomed", {"x-expires": TTL_MS}),
        ("leased", {}),
    ):
        pipeline.declare(op="declare_queue", queue={"name": name, "arguments": arguments})
    pipeline.publish(b"short", routing_key=b"hasty")
    pipeline.publish(b"held", routing_key=b"leased")
    pipeline.until(lambda: pipeline.resident() == 2)
    pipeline.command(op="open_channel", channel="gone", lease_ms=TTL_MS)
    pipeline.command(op="get", queue="leased", channel="gone", **{"as": "g"})

    pipeline.until(lambda: ("hasty", "expired") in happened(pipeline, "died"))
    pipeline.until(lambda: happened(pipeline, "requeued") == [("leased", None)])
    pipeline.until(
        lambda: any(what == "queue_deleted" for _queue, what in happened(pipeline, "topology"))
    )

    foreign = pipeline.config.inputs[2].topic
    for at_ms in (IN_2099_MS, 1_000, IN_2099_MS):
        pipeline.producer.produce(foreign, b"odd clock", timestamp=at_ms)
    pipeline.until(lambda: pipeline.resident() == 5)
    pipeline.publish(b"after", routing_key=b"patient")
    pipeline.until(lambda: pipeline.resident() == 6)

    latest = pipeline.query("events", 'epoch_ms(max("at"))', "1")[0][0]
    assert latest <= time.time() * 1000
    assert happened(pipeline, "died") == [("hasty", "expired")]
    assert pipeline.query("dead_letters", "reason, targets, body", "seq") == [
        ("expired", ["late"], b"short")
    ]

    wait_until(lambda: runs_no_batch(pipeline), lambda: "an idle job runs batches")


def test_after_an_outage_no_message_of_the_backlog_has_expired(pipeline, spark):
    pipeline.start(spark)
    arguments = {"x-message-ttl": TTL_MS}
    pipeline.command(op="declare_queue", queue={"name": "hasty", "arguments": arguments})
    pipeline.until(lambda: any(batch.events for batch in pipeline.batches))
    pipeline.stop()
    for _ in range(20):
        pipeline.publish(b"waited in Kafka", routing_key=b"hasty")
    pipeline.producer.flush()
    time.sleep(OUTAGE_S)
    started_ms = time.time() * 1000

    pipeline.start(spark)
    pipeline.until(lambda: pipeline.query("messages", "1", "1"))
    pipeline.until(lambda: len(happened(pipeline, "died")) == 20)

    expiries = pipeline.query(
        "events",
        "epoch_ms(max(expires_at)), epoch_ms(max(\"at\") filter (kind = 'died'))",
        "1",
        "copy_id having copy_id is not null",
    )
    assert len(expiries) == 20
    for expires_ms, died_ms in expiries:
        assert died_ms == expires_ms
        assert expires_ms >= started_ms + TTL_MS


def test_a_clock_set_back_by_an_hour_delays_no_deadline(pipeline, spark, monkeypatch):
    def one_expires(after: int) -> None:
        pipeline.publish(b"short", routing_key=b"hasty")
        pipeline.until(lambda: len(happened(pipeline, "died")) > after)

    real_ns = time.time_ns
    pipeline.start(spark)
    arguments = {"x-message-ttl": TTL_MS}
    pipeline.declare(op="declare_queue", queue={"name": "hasty", "arguments": arguments})
    one_expires(0)

    monkeypatch.setattr(time, "time_ns", lambda: real_ns() - HOUR_NS)
    one_expires(1)
    pipeline.stop()
    pipeline.start(spark)  # a job that starts with the wrong clock knows the time, too
    one_expires(2)
    monkeypatch.setattr(time, "time_ns", real_ns)
    one_expires(3)

    of_the_shard = "\"at\", seq, kind having kind <> 'batch'"
    found = pipeline.query("events", 'epoch_ms("at")', "seq", of_the_shard)
    times = [at_ms for (at_ms,) in found]
    assert times == sorted(times)
    assert times[-1] <= real_ns() // 1_000_000
