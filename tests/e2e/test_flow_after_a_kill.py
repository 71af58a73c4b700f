"""After a job was killed with a closed gate, the restarted job closes it at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.client import Connection
from streaming.client.address import address_of
from streaming.config import Absolute, FlowSettings
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

MARK_BYTES = 2_000_000
BODY = b"0123456789" * 1_000
MESSAGES = 600


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Pipeline:
    flow = FlowSettings(vm_memory_high_watermark=Absolute(MARK_BYTES))
    job = {"max_batch_rows": 100}
    return Pipeline(tmp_path, embedded_kafka.bootstrap_servers, flow=flow, job=job)


@pytest.fixture
def run(tmp_path: Path, pipeline: Pipeline) -> Iterator[DlxRun]:
    run = DlxRun(tmp_path, pipeline.config)
    yield run
    run.kill()


@pytest.mark.nightly  # in every run, a job with a closed gate stops and starts (test_flow_control)
def test_the_gate_is_closed_after_a_kill_and_nothing_is_lost(pipeline, run):
    run.start()
    address = address_of(pipeline.config, "guest")
    with Connection(address, timeout_s=WAIT_S) as connection:
        connection.channel().declare_queue("work")
    for _ in range(MESSAGES):
        pipeline.publish(BODY, routing_key=b"work")
    assert pipeline.producer.flush(WAIT_S) == 0
    run.until(lambda: any(batch["gate"] == "closed" for batch in run.batches()))
    run.kill()
    before = run.batches()

    run.start()
    with Connection(address, timeout_s=WAIT_S) as connection:
        channel = connection.channel()
        found = channel.queue_depth("work")
        first = run.batches()[len(before)]
        assert first["gate"] == "closed"
        assert first["resident_bytes"] >= MARK_BYTES * 0.9
        assert found == first["resident_messages"] < MESSAGES

        consumer = channel.consume("work", auto_ack=True)
        deliveries = [consumer.next(WAIT_S) for _ in range(MESSAGES)]
        assert [each and each.body for each in deliveries] == [BODY] * MESSAGES
        assert channel.queue_depth("work") == 0
    run.stop()

    gates = [batch["gate"] for batch in run.batches()]
    assert gates[-1] == "open"
    largest = max(batch["publishes"] for batch in run.batches()) * (len(BODY) + 64)
    assert max(batch["resident_bytes"] for batch in run.batches()) <= MARK_BYTES + largest
    lives = dict(pipeline.query("events", "kind, count(distinct copy_id)", "kind", "kind"))
    assert (lives["enqueued"], lives["consumed"]) == (MESSAGES, MESSAGES)
