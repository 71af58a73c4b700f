"""Flow control against a small mark (document 001, "Memory-based flow control"; D9).

Nobody consumes at first, bodies are short and then long; the job stops and starts while the gate
is closed; then a consumer drains the queue and takes what still waits in Kafka.
"""

import json
import logging
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streaming.config import Absolute, FlowSettings
from tests.fixtures.pipeline import Pipeline

SHORT, LONG = 200, 100_000
QUIET_S = 2.0


class Load:
    """A number of bytes of bodies, and a smaller high mark."""

    def __init__(
        self, root: Path, servers: str, mark_bytes: int, short_bytes: int, long_bytes: int
    ) -> None:
        self.mark_bytes = mark_bytes
        self.counts = {SHORT: short_bytes // SHORT, LONG: long_bytes // LONG}
        flow = FlowSettings(vm_memory_high_watermark=Absolute(mark_bytes))
        self.pipeline = Pipeline(root, servers, flow=flow, job={"max_batch_rows": 20_000})
        self.most_bytes = 0
        self.largest_batch_bytes = 0
        self.gates: list[bool] = []

    @property
    def messages(self) -> int:
        return sum(self.counts.values())

    def watch(self) -> bool:
        """Collect the figures of the batches so far; True, for use in a condition."""
        job = self.pipeline.job
        assert job is not None
        self.most_bytes = max(self.most_bytes, job.shards.resident_bytes)
        if not self.gates or self.gates[-1] != job.gate_state.open:
            self.gates.append(job.gate_state.open)
        for batch in self.pipeline.batches:
            added = sum(report.published_bytes + 64 * report.publishes for report in batch.reports)
            self.largest_batch_bytes = max(self.largest_batch_bytes, added)
        return True

    def publish(self, size: int) -> None:
        for number in range(self.counts[size]):
            body = f"{number:08}".encode() * (size // 8)
            while True:
                try:
                    self.pipeline.publish(body, routing_key=b"work")
                except BufferError:
                    self.pipeline.producer.poll(0.1)
                    continue
                break
            if number % 1000 == 0:
                self.pipeline.producer.poll(0)

    def read(self) -> int:
        return sum(r.publishes for batch in self.pipeline.batches for r in batch.reports)

    def until_closed(self) -> None:
        job = self.pipeline.job
        assert job is not None
        self.pipeline.until(lambda: self.watch() and not job.gate_state.open)

    def stays_closed(self) -> None:
        """While the gate is closed, no waiting publishes are read."""
        before = self.read()
        until = time.monotonic() + QUIET_S
        self.pipeline.until(lambda: self.watch() and time.monotonic() > until)
        assert self.read() <= before + 20_000  # a batch may have been running

    def drain(self) -> None:
        """A consumer drains the queue, then the publishes that wait in Kafka."""
        self.pipeline.command(
            op="consume", queue="work", channel="w", auto_ack=True, **{"as": "drain"}
        )
        while self.read() < self.messages:
            before = self.read()
            self.pipeline.until(lambda before=before: self.watch() and self.read() > before)
        self.pipeline.until(lambda: self.watch() and self.pipeline.resident() == 0)


def batch_details(pipeline: Pipeline) -> list[tuple[str]]:
    """The figures of the batch rows, batch by batch."""
    return pipeline.query(
        "events", "max(detail) filter (where kind = 'batch')", "batch_id", "batch_id"
    )


@pytest.fixture
def load(request: pytest.FixtureRequest, tmp_path: Path, embedded_kafka: Any) -> Iterator[Load]:
    load = Load(tmp_path, embedded_kafka.bootstrap_servers, *request.param)
    yield load
    load.pipeline.stop()


@pytest.mark.parametrize(
    "load",
    [
        pytest.param((2_000_000, 4_000_000, 4_000_000), id="8 MB against 2 MB"),
        pytest.param(  # the same with more; the short messages alone are more than twice the mark
            (64_000_000, 150_000_000, 850_000_000),
            id="1 GB against 64 MB",
            marks=pytest.mark.nightly,
        ),
    ],
    indirect=True,
)
def test_the_high_mark_bounds_resident_messages_and_nothing_is_lost(load, spark, caplog):
    caplog.set_level(logging.INFO)
    pipeline = load.pipeline
    pipeline.start(spark)
    assert f"Memory limit set to {load.mark_bytes // 1_000_000}MB." in caplog.text
    pipeline.declare(op="declare_queue", queue={"name": "work"})
    load.watch()  # open
    load.publish(SHORT)
    load.until_closed()
    load.stays_closed()
    load.publish(LONG)

    pipeline.stop()
    resident = pipeline.resident()
    pipeline.start(spark)
    assert pipeline.resident() == resident
    assert not pipeline.job.gate_state.open
    load.stays_closed()
    load.drain()

    assert load.most_bytes <= load.mark_bytes + load.largest_batch_bytes
    assert pipeline.query("messages", "count(*), sum(body_bytes)", "1") == [
        (load.messages, load.counts[SHORT] * SHORT + load.counts[LONG] * LONG)
    ]
    lives = dict(pipeline.query("events", "kind, count(distinct copy_id)", "kind", "kind"))
    assert (lives["enqueued"], lives["consumed"]) == (load.messages, load.messages)
    assert load.gates[:2] == [True, False]
    assert load.gates[-1]
    gates = [json.loads(text)["gate"] for (text,) in batch_details(pipeline)]
    for before, after in pairwise(gates):
        if after["open"] != before["open"]:  # never between the marks
            resident, marks = after["resident_bytes"], pipeline.job.marks
            assert resident < marks.low_bytes if after["open"] else resident > marks.high_bytes
    notices = pipeline.outbound(2, "flow")
    assert [json.loads(value)["active"] for _headers, value in notices] == [False, False]
    assert {(h["dlx-lane"], h["dlx-seq"]) for h, _value in notices} == {(b"-1", b"1")}
    assert json.loads(notices[0][1])["high_mark_bytes"] == load.mark_bytes


def test_processes_that_use_much_memory_throttle_publishes_but_never_stop_them(
    tmp_path, embedded_kafka, spark, monkeypatch
):
    used = [0]
    monkeypatch.setattr("streaming.pipeline.flow.control.MEASURE_S", 0.1)
    monkeypatch.setattr("streaming.pipeline.flow.control.process_tree_bytes", lambda *_: used[0])
    servers = embedded_kafka.bootstrap_servers
    pipeline = Pipeline(tmp_path, servers, job={"max_batch_rows": 1_000})
    try:
        pipeline.start(spark)
        pipeline.declare(op="declare_queue", queue={"name": "work"})
        job = pipeline.job
        assert job is not None
        assert job.gate_state.open
        high_bytes = job.marks.process_high_bytes
        assert high_bytes is not None

        used[0] = high_bytes + 1
        pipeline.until(lambda: job.gate_state.cause == "memory")
        sent = [0]
        while pipeline.resident() == sent[0]:  # Spark may have planned a batch before
            for _ in range(100):
                pipeline.publish(b"body", routing_key=b"work")
            sent[0] += 100
            pipeline.until(lambda: pipeline.resident() >= sent[0] - 80)
        used[0] = 1
        pipeline.until(lambda: job.gate_state.cause != "memory" and pipeline.resident() == sent[0])
    finally:
        pipeline.stop()

    publishes = [sum(r.publishes for r in batch.reports) for batch in pipeline.batches]
    throttled = [
        (gate["open"], gate["process_bytes"])
        for gate in (json.loads(text)["gate"] for (text,) in batch_details(pipeline))
        if gate["cause"] == "memory"
    ]
    assert 10 in publishes  # a hundredth of max_batch_rows
    assert set(throttled) == {(False, high_bytes + 1)}
    notices = [json.loads(value) for _headers, value in pipeline.outbound(2, "flow")]
    assert {notice["process_high_mark_bytes"] for notice in notices} == {high_bytes}
    assert not notices[0]["active"]


def test_a_backlog_of_commands_is_read_in_bounded_batches_before_later_publishes(
    tmp_path, embedded_kafka, spark
):
    count, most, publishes = 1_200, 400, 50

    def published() -> int:
        return sum(report.publishes for batch in pipeline.batches for report in batch.reports)

    servers = embedded_kafka.bootstrap_servers
    pipeline = Pipeline(tmp_path, servers, job={"max_batch_rows": most})
    try:
        pipeline.start(spark)
        pipeline.declare(op="declare_queue", queue={"name": "work"})
        pipeline.stop()
        for _ in range(count - 1):
            pipeline.command(op="declare_queue", queue={"name": "work"})
        pipeline.command(op="declare_queue", queue={"name": "last"})
        assert pipeline.producer.flush(30) == 0
        for _ in range(publishes):
            pipeline.publish(b"", routing_key=b"last")
        pipeline.start(spark)
        pipeline.until(lambda: published() == publishes)
        assert pipeline.resident() == publishes
    finally:
        pipeline.stop()

    assert max(batch.records for batch in pipeline.batches) == most
