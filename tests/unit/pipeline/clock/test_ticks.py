"""The thread that wakes idle shards survives every failure."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.message import NEVER
from streaming.config import JobConfig
from streaming.pipeline.clock import trigger as ticks
from streaming.record_sender import SendError


class FakeSender:
    """Counts the written records; the first flushes fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.vhosts: list[bytes] = []
        self.written = threading.Event()
        self._last: Any = None

    def send(self, _topic: str, _value: bytes, **record: Any) -> None:
        self._last = record

    def flush(self, _timeout_s: float) -> None:
        if self.failures:
            self.failures -= 1
            raise SendError("timed out")
        self.vhosts.append(dict(self._last["headers"])["dlx-vhost"])
        self.written.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks, "CHECK_S", 0.01)


def started(kafka: FakeSender, monkeypatch: Any, deadlines: dict[int, int]) -> ticks.Ticks:
    monkeypatch.setattr(ticks, "RecordSender", lambda _properties: kafka)
    settings: Any = SimpleNamespace(shards={1: ShardConfig(vhost="/")})
    config, partitions = JobConfig(), {"dlx.commands": 1}
    return ticks.Ticks(config, settings, {}, partitions, deadlines, wall_ms)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_shard_that_is_no_longer_configured_gets_no_ticks(quick, monkeypatch):
    kafka = FakeSender(failures=0)

    waking = started(kafka, monkeypatch, {1: 0, 7: 0})

    assert kafka.written.wait(30)
    waking.stop()
    assert kafka.vhosts == [b"/"]


def test_a_failed_tick_is_retried(quick, monkeypatch):
    kafka = FakeSender(failures=2)

    waking = started(kafka, monkeypatch, {1: 0})

    assert kafka.written.wait(30)
    waking.stop()
    assert kafka.failures == 0


def test_a_clock_set_forward_is_noticed(quick, monkeypatch):
    kafka = FakeSender(failures=0)
    real_ns = time.time_ns
    in_an_hour_ms = real_ns() // 1_000_000 + 3_600_000
    waking = started(kafka, monkeypatch, {1: in_an_hour_ms})
    assert not kafka.written.wait(0.2)

    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + 3_601_000_000_000)

    assert kafka.written.wait(30)
    waking.stop()
    assert in_an_hour_ms < NEVER
