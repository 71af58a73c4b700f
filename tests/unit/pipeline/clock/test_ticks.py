"""The thread that wakes idle shards survives every failure."""

import threading
import time
from collections.abc import Callable
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


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def started(
    kafka: Any, deadlines: dict[int, int], now_ms: Callable[[], int] = wall_ms
) -> ticks.Ticks:
    settings: Any = SimpleNamespace(shards={1: ShardConfig(vhost="/")})
    config, partitions = JobConfig(), {"dlx.commands": 1}
    return ticks.Ticks(config, settings, kafka, partitions, deadlines, now_ms)


def test_a_shard_that_is_no_longer_configured_gets_no_ticks(quick):
    kafka = FakeSender(failures=0)

    waking = started(kafka, {1: 0, 7: 0})

    assert kafka.written.wait(30)
    waking.stop()
    assert kafka.vhosts == [b"/"]


def test_a_failed_tick_is_retried(quick):
    kafka = FakeSender(failures=2)

    waking = started(kafka, {1: 0})

    assert kafka.written.wait(30)
    waking.stop()
    assert kafka.failures == 0


def test_a_clock_set_forward_is_noticed(quick):
    kafka = FakeSender(failures=0)
    ahead_ms = [0]
    in_an_hour_ms = wall_ms() + 3_600_000
    waking = started(kafka, {1: in_an_hour_ms}, lambda: wall_ms() + ahead_ms[0])
    assert not kafka.written.wait(0.2)

    ahead_ms[0] = 3_601_000

    assert kafka.written.wait(30)
    waking.stop()
    assert in_an_hour_ms < NEVER
