"""The job on real Kafka, Spark and Delta: its outbound records and tables."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from streaming.config import KafkaSettings, TablesSettings
from streaming.contents.updater import ContentsUpdater, Updated
from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.job import Job
from streaming.storage.location import Location
from tests.fixtures.pipeline import Pipeline


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Iterator[Pipeline]:
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers)
    yield pipeline
    pipeline.stop()


def test_a_job_without_any_event_starts_again(pipeline, spark):
    pipeline.start(spark)
    pipeline.command(op="tick")
    pipeline.until(lambda: pipeline.batches)
    pipeline.stop()

    pipeline.start(spark)
    pipeline.command(op="declare_queue", queue={"name": "work"})
    pipeline.until(lambda: any(batch.events for batch in pipeline.batches))


def publishes(pipeline: Pipeline) -> int:
    """The number of publishes that the batches have read."""
    return sum(report.publishes for batch in pipeline.batches for report in batch.reports)


def test_a_missing_alternate_exchange_is_in_the_log_once(pipeline, spark, caplog):
    caplog.set_level(logging.WARNING)
    pipeline.start(spark)
    orders = {"name": "orders", "arguments": {"alternate-exchange": "unrouted"}}
    pipeline.declare(op="declare_exchange", exchange=orders)
    for count in (1, 2):
        pipeline.publish(b"body", exchange=b"orders", routing_key=b"nowhere")
        pipeline.until(lambda count=count: publishes(pipeline) == count)

    line = "vhost '/': alternate exchange 'unrouted' of exchange 'orders' does not exist"
    assert [message for message in caplog.messages if "'unrouted'" in message] == [line]


def test_a_rejected_message_is_in_dead_letters_with_its_body_and_x_death(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare_work()
    for number in range(3):
        pipeline.publish(
            f"body {number}".encode(), exchange=b"orders", routing_key=b"order.eu", flags=b"confirm"
        )
    pipeline.until(lambda: pipeline.resident() == 3)

    pipeline.command(op="get", queue="work", count=2, **{"as": "g"}, channel="worker")
    pipeline.command(op="reject", refs=["g/0"], channel="worker")
    pipeline.command(op="ack", refs=["g/1", "g/7"], channel="worker", reply_id="mine")
    pipeline.until(lambda: pipeline.resident() == 2)

    assert pipeline.query(
        "dead_letters",
        "queue, reason, exchange, routing_key, dead_letter_exchange, targets, body, "
        "x_death[1].queue, x_death[1].reason, x_death[1].count, first_death.exchange",
        "seq",
    ) == [
        (
            *("work", "rejected", "orders", "order.eu", "dlx", ["dlq"], b"body 0"),
            *("work", "rejected", 1, "orders"),
        )
    ]
    assert pipeline.query("messages", '"offset", body, confirm', '"offset"') == [
        (0, b"body 0", True),
        (1, b"body 1", True),
        (2, b"body 2", True),
    ]
    assert pipeline.query("events", "kind, queue", "seq nulls first")[-6:] == [
        ("delivered", "work"),
        ("delivered", "work"),
        ("died", "work"),
        ("enqueued", "dlq"),
        ("acked", "work"),
        ("settle_missed", None),
    ]
    records = pipeline.outbound(13)
    kinds = [headers["dlx-kind"].decode() for headers, _value in records]
    assert kinds == ["answer"] * 6 + ["confirm"] * 3 + ["delivery"] * 2 + ["answer"] * 2
    assert [int(headers["dlx-seq"]) for headers, _value in records] == list(range(1, 14))
    delivery, body = records[9]
    assert (delivery["dlx-ref"], delivery["dlx-queue"], body) == (b"g/0", b"work", b"body 0")
    assert json.loads(records[12][1]) == {
        "op": "ack",
        "reply_id": "mine",
        "result": {"missing": ["g/7"]},
        "seq": json.loads(records[12][1])["seq"],
    }


def test_contents_by_net_changes_equal_those_by_events(pipeline, spark, monkeypatch):
    by_nets = []
    apply_nets = ContentsUpdater._apply_nets  # noqa: SLF001 - tells which way an update took

    def counted(updater: ContentsUpdater, started: float) -> Updated | None:
        by_nets.append(apply_nets(updater, started))
        return by_nets[-1]

    monkeypatch.setattr(ContentsUpdater, "_apply_nets", counted)
    pipeline.start(spark)
    pipeline.declare_work()
    pipeline.until((pipeline.tables / "queue_contents" / "_delta_log").exists)
    for number in range(6):
        pipeline.publish(b"%d" % number, exchange=b"orders", routing_key=b"order.eu")
    pipeline.until(lambda: pipeline.resident() == 6)
    pipeline.command(op="get", queue="work", count=4, **{"as": "g"}, channel="worker")
    pipeline.command(op="reject", refs=["g/0"], channel="worker")
    pipeline.command(op="ack", refs=["g/1"], channel="worker")
    pipeline.command(op="reject", refs=["g/2"], requeue=True, channel="worker")
    pipeline.until(lambda: pipeline.resident() == 5)
    pipeline.stop()
    found = pipeline.query("queue_contents", "*", "copy_id")

    ContentsUpdater(Location(str(pipeline.tables))).rebuild()

    assert found == pipeline.query("queue_contents", "*", "copy_id")
    assert len(found) == 5
    assert any(by_nets)


def test_a_second_job_on_one_checkpoint_is_refused(pipeline, spark):
    pipeline.start(spark)

    with pytest.raises(CheckpointError, match="another job uses"):
        Job(pipeline.config).start(spark)


def test_inputs_are_trimmed_up_to_the_oldest_message_and_a_restarted_job_resumes_there(
    tmp_path, embedded_kafka, spark
):
    servers = embedded_kafka.bootstrap_servers
    kafka = KafkaSettings(bootstrap_servers=(servers,), trim_interval_ms=500)
    tables = TablesSettings(contents_lag_ms=500)
    pipeline = Pipeline(tmp_path, servers, kafka=kafka, tables=tables)
    consumer = Consumer(
        {"bootstrap.servers": servers, "log_level": 0, "group.id": pipeline.publishes}
    )
    place = TopicPartition(pipeline.publishes, 0)
    try:
        pipeline.start(spark)
        pipeline.declare_work()
        for number in range(4):
            pipeline.publish(f"{number}".encode(), exchange=b"orders", routing_key=b"order.eu")
        pipeline.until(lambda: pipeline.resident() == 4)
        pipeline.command(op="get", queue="work", count=2, channel="worker", **{"as": "g"})
        pipeline.command(op="reject", refs=["g/1"], channel="worker")
        pipeline.command(op="ack", refs=["g/0"], channel="worker")
        pipeline.until(lambda: consumer.get_watermark_offsets(place, timeout=10) == (1, 4))
        pipeline.command(op="purge", queue="dlq")
        pipeline.until(lambda: consumer.get_watermark_offsets(place, timeout=10) == (2, 4))

        pipeline.stop()
        pipeline.publish(b"meanwhile", exchange=b"orders", routing_key=b"order.eu")
        pipeline.start(spark)
        pipeline.until(lambda: pipeline.resident() == 3)
        pipeline.command(op="get", queue="work", count=9, auto_ack=True, channel="worker")
        pipeline.until(lambda: pipeline.resident() == 0)
    finally:
        consumer.close()
        pipeline.stop()

    bodies = [body for (body,) in pipeline.query("messages", "body", '"offset"')]
    assert bodies == [b"0", b"1", b"2", b"3", b"meanwhile"]
    assert pipeline.query("events", "kind", "seq").count(("consumed",)) == 3
    [(detail,)] = pipeline.query(
        "events", "max_by(detail, batch_id)", "1", "kind having kind = 'batch'"
    )
    assert json.loads(detail)["lowest_resident"]["1/0"] >= 2
