"""Flow control changes Spark's internals; with an untested version it only logs a warning."""

import logging
from unittest.mock import MagicMock

import pytest

from streaming.config import JobConfig
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.spark_read_limits import SparkReadLimits
from streaming.pipeline.reports import ShardStats

CLOSED = BatchDetail(gate=GateState(2_000, 0, "above", open=False))
MARKS = MemoryMarks(high_bytes=1_000, low_bytes=800, notes=())
RESIDENT = ShardStats(BatchDetail(resident={1: (9, 2_000)}, mean_bytes=10.0))


def flow() -> FlowControl:
    return FlowControl(JobConfig(), MARKS, CLOSED, RESIDENT)


@pytest.mark.parametrize(
    ("version", "importing", "rows"),
    [
        ("4.2.0", False, 0),  # closed when it stopped
        ("4.2.7", True, 0),
        ("4.3.0", False, JobConfig().job.max_batch_rows),
        ("5.0.0", True, JobConfig().job.max_batch_rows),
    ],
)
def test_a_start_throttles_publishes_only_if_the_limit_can_be_raised_later(
    version, importing, rows
):
    assert flow().first_rows(MagicMock(version=version), importing=importing) == rows


def test_an_untested_version_gets_a_warning_and_no_changes(caplog):
    query = MagicMock()
    with caplog.at_level(logging.WARNING):
        limits = SparkReadLimits(MagicMock(version="4.3.0"), query)
    limits.set_rows(["dlx.publishes"], 0)
    limits.close_all()

    assert (
        "flow control cannot throttle publishes: it supports Spark 4.2.x, and this is 4.3.0"
        in caplog.text
    )
    query._jsq.streamingQuery().uniqueSources.assert_not_called()  # noqa: SLF001 - as Spark has it
