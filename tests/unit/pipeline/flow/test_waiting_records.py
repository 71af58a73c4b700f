"""How many records of fronts' logs wait for the next batch."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from streaming.config import JobConfig, VhostSettings
from streaming.config.amqp import AmqpSettings
from streaming.ledger.batch_detail import BatchDetail
from streaming.pipeline.flow import control, waiting_records
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.pace import MUCH_RECORDS
from streaming.pipeline.flow.waiting_records import WaitingRecords
from streaming.pipeline.reports import ShardStats

NO_MARKS = MemoryMarks(high_bytes=None, low_bytes=None, notes=())
LOG = JobConfig(vhosts={"/": VhostSettings(sequenced=True)}).log_topics()["/"]


class Kafka:
    """An admin of a Kafka that has logs; it gives up on questions without them."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}

    def list_offsets(self, asked: Any, **_: Any) -> dict[Any, Future[Any]]:
        """Say where each partition ends."""
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in asked}
        for partition, answer in answers.items():
            if self.ends:
                answer.set_result(SimpleNamespace(offset=self.ends[partition.topic]))
            else:
                answer.set_exception(TimeoutError())
        return answers


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr(waiting_records, "quiet_admin", lambda _properties: kafka)
    return kafka


def test_records_of_all_logs_count_from_where_the_next_batch_begins(kafka):
    waiting = WaitingRecords({}, ["a", "b", "c", "made-again"])
    begins = {"a": {"0": 100}, "b": {"0": 50}, "made-again": {"0": 400}, "other": {"0": 0}}
    kafka.ends = {"a": 700, "b": 50, "c": 9, "made-again": 5}
    assert waiting.count(begins) == 600

    kafka.ends["b"] = 60

    assert waiting.count(begins) == 610


def test_nothing_waits_for_a_kafka_that_does_not_answer(kafka):
    assert WaitingRecords({}, ["a"]).count({"a": {"0": 0}}) == 0


@pytest.fixture
def flow(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> FlowControl:
    for part in ("FlowNotices", "Heartbeat", "RecordSender"):
        monkeypatch.setattr(control, part, MagicMock())
    amqp = AmqpSettings(max_lag_bytes=3_000_000_000)
    config = JobConfig(vhosts={"/": VhostSettings(sequenced=True)}, amqp=amqp)
    flow = FlowControl(config, NO_MARKS, BatchDetail(), ShardStats(BatchDetail(mean_bytes=100_000)))
    kafka.ends = {LOG: 100_000}
    assert not flow.may_wait()  # nothing is announced yet
    flow.announce(Path("checkpoint"), MagicMock(), {}, {}, {})
    return flow


@pytest.mark.parametrize(
    ("records", "expected"), [(MUCH_RECORDS - 1, False), (MUCH_RECORDS, True), (10_001, False)]
)
def test_a_batch_waits_for_a_core_if_it_is_large_and_publishers_need_not_wait(
    flow, records, expected
):
    flow.batch_committed(1, {LOG: {"0": 100_000 - records}})

    assert flow.may_wait() == expected
