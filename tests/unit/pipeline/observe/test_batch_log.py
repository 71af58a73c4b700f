"""The line that the job logs after a batch."""

import json
import time

import pytest

from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.observe.job_log import batch_figures
from streaming.pipeline.reports import BatchDone, ShardReport, ShardStats

NOW_MS = 1_800_000_000_000
OPEN = GateState(0, 100, "below", open=True)


def report(shard: int, now_ms: int) -> ShardReport:
    return ShardReport(
        shard=shard,
        vhost="/",
        lane=0,
        files=[],
        records=3,
        publishes=2,
        published_bytes=20,
        events=4,
        deaths={"expired": 1},
        resident_messages=1,
        resident_bytes=10,
        state_bytes=5,
        now_ms=now_ms,
        next_deadline_ms=0,
        outbound=0,
        seconds={},
        truncated=[],
    )


def line_of(reports, clock):
    done = BatchDone(7, NOW_MS - 250, reports, 6, 8, {"fold": 0.5})
    return json.loads(json.dumps(batch_figures(done, ShardStats(BatchDetail()), OPEN, clock)))


@pytest.fixture(autouse=True)
def _wall(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)


@pytest.mark.parametrize(("clock", "lag_ms"), [("wall", 250), ("event", 90_000)])
def test_the_lag_is_that_of_the_clock_in_use(clock, lag_ms):
    line = line_of([report(1, NOW_MS - 30_000), report(2, NOW_MS - 90_000)], clock)

    assert line["lag_ms"] == lag_ms
    assert (line["batch_id"], line["publishes"], line["dead_letters"]) == (7, 4, {"expired": 2})


@pytest.mark.parametrize(("clock", "lag_ms"), [("wall", 250), ("event", None)])
def test_a_batch_without_shards_moves_no_event_clock(clock, lag_ms):
    assert line_of([], clock)["lag_ms"] == lag_ms
