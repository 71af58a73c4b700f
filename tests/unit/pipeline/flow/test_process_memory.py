"""The memory of the job's processes is the second trigger of flow control."""

import json
import logging
from typing import Any

import pytest

from streaming.config import JobConfig, JobSettings
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.notices import FlowNotices
from streaming.pipeline.reports import ShardStats

MARKS = MemoryMarks(1_000, 800, (), process_high_bytes=100, process_low_bytes=80)
CONFIG = JobConfig(job=JobSettings(max_batch_rows=50))
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


class Limits:
    """Records the limits of publishes that are set."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def set_rows(self, topics: Any, max_rows: int) -> None:
        if topics == CONFIG.topics_of("publishes"):
            self.rows.append(max_rows)


@pytest.fixture
def limits() -> Limits:
    return Limits()


def flow(limits: Limits, detail: BatchDetail | None = None) -> FlowControl:
    stats = ShardStats(BatchDetail(mean_bytes=10.0))
    control = FlowControl(CONFIG, MARKS, detail or BatchDetail(), stats)
    control._limits = limits  # type: ignore[assignment]  # noqa: SLF001 - in a job, those of a query
    return control


def test_a_change_of_process_memory_applies_without_a_batch(limits):
    control = flow(limits)

    for size in (90, 101, 90, 79):
        control.measure(size)

    assert control.state == GateState(0, 50, "below", open=True, process_bytes=79)
    assert limits.rows == [1, 50]


@pytest.mark.parametrize(("cause", "is_open"), [("above", False), ("memory", True)])
def test_a_restarted_job_starts_with_an_open_gate_if_process_memory_closed_it(
    limits, cause, is_open
):
    stats = ShardStats(BatchDetail(resident={1: (9, 900)}, mean_bytes=10.0))

    gate = GateState(900, 0, cause, open=False)
    control = FlowControl(CONFIG, MARKS, BatchDetail(gate=gate), stats)

    assert control.state.open == is_open


def test_notices_and_the_log_name_both_figures(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    notices = FlowNotices(tmp_path, MARKS, {}, {}, NOWHERE)
    notices.update(GateState(900, 1, "memory", open=False, process_bytes=101))
    notices.stop()

    value, _headers = notices.record("flow")

    assert json.loads(value) == {
        "type": "flow",
        "active": False,
        "cause": "memory",
        "resident_bytes": 900,
        "high_mark_bytes": 1_000,
        "low_mark_bytes": 800,
        "process_bytes": 101,
        "process_high_mark_bytes": 100,
        "process_low_mark_bytes": 80,
    }
    assert caplog.messages == [
        "flow control: publishes are throttled (memory): messages in queues use 900 of 1,000 "
        "bytes, the job's processes 101 of 100 bytes"
    ]
