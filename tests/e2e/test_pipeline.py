"""The job on real Kafka, Spark and Delta: what goes in comes out and is in the tables."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Consumer, Message, Producer
from deltalake import DeltaTable

from streaming.config import JobConfig
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.topics import OutboundSettings
from streaming.pipeline.checkpoint import CheckpointError
from streaming.pipeline.job import BatchDone, Job

WAIT_S = 120
"""The longest a test waits for something to happen; a busy machine is slow."""


class Pipeline:
    """A job with topics, checkpoint and tables of its own."""

    def __init__(self, root: Path, servers: str) -> None:
        mark = uuid.uuid4().hex[:8]
        self.publishes, self.commands = f"publishes-{mark}", f"commands-{mark}"
        self.config = JobConfig(
            job=JobSettings(
                checkpoint_location=str(root / "checkpoints"),
                tables_location=str(root / "tables"),
                log_dir=str(root / "logs"),
                shuffle_partitions=2,
            ),
            kafka=KafkaSettings(bootstrap_servers=(servers,)),
            inputs=(
                InputSettings(topic=self.publishes, source="publishes"),
                InputSettings(topic=self.commands, source="commands"),
            ),
            outbound=OutboundSettings(topic=f"out-{mark}.{{vhost}}.{{user}}"),
        )
        self.tables = root / "tables"
        self.batches: list[BatchDone] = []
        self.producer = Producer({"bootstrap.servers": servers})
        self.servers = servers
        self.job: Job | None = None

    def start(self, spark: Any) -> None:
        self.job = Job(self.config, self.batches.append)
        self.job.start(spark)

    def stop(self) -> None:
        if self.job is not None:
            self.job.stop()

    def command(self, **members: Any) -> None:
        headers: list[tuple[str, str | bytes | None]] = [("dlx-op", members["op"].encode())]
        self.producer.produce(self.commands, json.dumps(members).encode(), headers=headers)

    def publish(self, body: bytes | None, **headers: bytes) -> None:
        named: list[tuple[str, str | bytes | None]] = [
            (f"dlx-{name.replace('_', '-')}", value) for name, value in headers.items()
        ]
        self.producer.produce(self.publishes, body, headers=named)

    def until(self, condition: Any) -> None:
        """Wait until something holds; the job must live."""
        assert self.producer.flush(30) == 0
        assert self.job is not None
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {WAIT_S} s; batches: {self.batches}"
            assert not self.job.wait(0.05), "the job ended"

    def query(self, table: str, columns: str, order: str) -> list[tuple[Any, ...]]:
        files = DeltaTable(str(self.tables / table)).file_uris()
        if not files:
            return []
        relation = duckdb.sql(
            f"select {columns} from read_parquet({files!r}, union_by_name=true) order by {order}"
        )
        assert relation is not None
        return relation.fetchall()

    def outbound(self, count: int) -> list[tuple[dict[str, bytes], bytes]]:
        """The first records of the user's topic: headers and value."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self.config.outbound_topics()[("/", "guest")]])
        found: list[tuple[dict[str, bytes], bytes]] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append((_headers(message), message.value() or b""))
        consumer.close()
        return found

    def declare_work(self, **arguments: Any) -> None:
        """Exchange orders -> queue work, dead letters to dlq."""
        self.command(op="declare_exchange", exchange={"name": "orders", "type": "topic"})
        self.command(op="declare_exchange", exchange={"name": "dlx", "type": "fanout"})
        self.command(op="declare_queue", queue={"name": "dlq"})
        work = {"x-dead-letter-exchange": "dlx", **arguments}
        self.command(op="declare_queue", queue={"name": "work", "arguments": work})
        key = {"source": "orders", "destination": "work", "routing_key": "order.#"}
        self.command(op="bind", binding=key)
        self.command(op="bind", binding={"source": "dlx", "destination": "dlq"})
        self.until(lambda: sum(batch.events for batch in self.batches) >= 6)


def _headers(message: Message) -> dict[str, bytes]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return {name: bytes(value) for name, value in headers if isinstance(value, bytes)}


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Iterator[Pipeline]:
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers)
    yield pipeline
    pipeline.stop()


def resident(pipeline: Pipeline) -> int:
    return pipeline.job.shards.resident_messages if pipeline.job is not None else 0


def test_a_rejected_message_is_in_dead_letters_with_its_body_and_x_death(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare_work()
    for number in range(3):
        pipeline.publish(
            f"body {number}".encode(), exchange=b"orders", routing_key=b"order.eu", flags=b"confirm"
        )
    pipeline.until(lambda: resident(pipeline) == 3)

    pipeline.command(op="get", queue="work", count=2, **{"as": "g"}, channel="worker")
    pipeline.command(op="reject", refs=["g/0"], channel="worker")
    pipeline.command(op="ack", refs=["g/1", "g/7"], channel="worker", reply_id="mine")
    pipeline.until(lambda: resident(pipeline) == 2)

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
    records = pipeline.outbound(14)
    kinds = [headers["dlx-kind"].decode() for headers, _value in records]
    assert kinds == ["answer"] * 6 + ["confirm"] * 3 + ["delivery"] * 2 + ["answer"] * 3
    assert [int(headers["dlx-seq"]) for headers, _value in records] == list(range(1, 15))
    delivery, body = records[9]
    assert (delivery["dlx-ref"], delivery["dlx-queue"], body) == (b"g/0", b"work", b"body 0")
    assert json.loads(records[13][1]) == {
        "op": "ack",
        "reply_id": "mine",
        "result": {"missing": ["g/7"]},
        "seq": json.loads(records[13][1])["seq"],
    }


def test_a_message_expires_by_the_wall_clock_without_any_traffic(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare_work(**{"x-message-ttl": 1500})
    pipeline.publish(b"short-lived", exchange=b"orders", routing_key=b"order.eu")

    pipeline.until(lambda: any("expired" in r.deaths for b in pipeline.batches for r in b.reports))

    assert pipeline.query("dead_letters", "reason, targets, body", "seq") == [
        ("expired", ["dlq"], b"short-lived")
    ]


def test_bad_records_are_quarantined_whole_and_those_around_them_are_processed(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare_work()
    pipeline.publish(b"good 1", exchange=b"orders", routing_key=b"order.eu")
    pipeline.publish(b"bad", exchange=b"orders", properties=b'{"x": 1}')
    pipeline.publish(b"bad", exchange=b"orders", headers=b"{")
    pipeline.publish(b"bad", exchange=b"\xff")
    pipeline.publish(b"bad", exchange=b"orders", vhost=b"nowhere")
    pipeline.publish(None, exchange=b"orders", routing_key=b"order.eu")
    pipeline.publish(b"bad", exchange=b"orders", flags=b"urgent")
    pipeline.producer.produce(pipeline.commands, b"no json", headers=[("dlx-op", b"get")])
    pipeline.producer.produce(pipeline.commands, b'{"op":"jump"}', headers=[("dlx-op", b"")])
    pipeline.publish(b"good 2", exchange=b"orders", routing_key=b"order.eu")

    pipeline.until(lambda: resident(pipeline) == 2)
    pipeline.until(lambda: len(pipeline.query("quarantine", "cause", "cause")) == 8)

    assert pipeline.query("quarantine", "cause, record_value", "cause, record_value") == [
        ("bad_json", b"bad"),
        ("bad_json", b"no json"),
        ("not_utf8", b"bad"),
        ("null_body", None),
        ("unknown_flag", b"bad"),
        ("unknown_op", b'{"op":"jump"}'),
        ("unknown_property", b"bad"),
        ("unlisted_vhost", b"bad"),
    ]
    assert pipeline.query("messages", "body", '"offset"') == [(b"good 1",), (b"good 2",)]


def test_a_restarted_job_goes_on_where_it_was(pipeline, spark):
    pipeline.start(spark)
    pipeline.declare_work()
    pipeline.publish(b"before", exchange=b"orders", routing_key=b"order.eu")
    pipeline.until(lambda: resident(pipeline) == 1)
    pipeline.stop()

    pipeline.publish(b"meanwhile", exchange=b"orders", routing_key=b"order.eu")
    pipeline.start(spark)
    pipeline.until(lambda: resident(pipeline) == 2)
    pipeline.command(op="get", queue="work", count=9, auto_ack=True, channel="worker")
    pipeline.until(lambda: resident(pipeline) == 0)

    assert pipeline.query("messages", "body", '"offset"') == [(b"before",), (b"meanwhile",)]
    assert pipeline.query("events", "kind", "seq").count(("consumed",)) == 2


def test_two_jobs_on_one_checkpoint_are_refused_in_words(pipeline, spark):
    pipeline.start(spark)

    with pytest.raises(CheckpointError, match="another job uses"):
        Job(pipeline.config).start(spark)
