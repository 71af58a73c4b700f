"""Time for idle shards: when a deadline is due, a `tick` is written into the log (D4)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from streaming.broker.message import NEVER
from streaming.wire import OP, VHOST

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.pipeline.processor import ShardReport
    from streaming.pipeline.tasks import TaskSettings


class Ticks:
    """Knows each shard's next deadline and wakes it, with `clock = wall` only."""

    def __init__(
        self,
        config: JobConfig,
        settings: TaskSettings,
        producer: dict[str, str],
        partitions: dict[str, int],
        deadlines: dict[int, int],
    ) -> None:
        self._wall = config.job.clock == "wall"
        self._settings = settings
        commands = [each for each in config.inputs if each.source == "commands"]
        self._topic = commands[0].topic if commands else None
        self._partitions = partitions.get(self._topic or "", 1)
        self._producer = (
            Producer({**producer, "log_level": 0, "linger.ms": 0}) if self._wall else None
        )
        self._deadlines: dict[int, int] = dict(deadlines)
        self._changed = threading.Condition()
        self._stopping = False
        if self._wall:
            threading.Thread(target=self._run, name="ticks", daemon=True).start()

    def batch_done(self, reports: list[ShardReport]) -> None:
        """Learn the deadlines of the shards of a batch."""
        with self._changed:
            for report in reports:
                self._deadlines[report.shard] = report.next_deadline_ms
            self._changed.notify()

    def wake(self) -> None:
        """Let a batch run now, with `clock = wall`; with `event` a tick would move time."""
        if self._wall:
            self._tick(min(self._settings.shards))

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                earliest = min(self._deadlines.values(), default=NEVER)
                now_ms = time.time_ns() // 1_000_000
                if earliest > now_ms:
                    wait_s = min((earliest - now_ms) / 1000, 3600)
                    self._changed.wait(wait_s)
                    continue
                due = [shard for shard, at_ms in self._deadlines.items() if at_ms <= now_ms]
                for shard in due:
                    self._deadlines[shard] = NEVER  # the batch that the tick makes says the next
            for shard in due:
                self._tick(shard)

    def _tick(self, shard: int) -> None:
        if self._topic is None or self._producer is None:
            return
        config = self._settings.shards[shard]
        partition = config.lane % self._partitions
        headers: list[tuple[str, str | bytes | None]] = [
            (OP, b"tick"),
            (VHOST, config.vhost.encode()),
        ]
        self._producer.produce(
            self._topic, value=b'{"op":"tick"}', partition=partition, headers=headers
        )
        self._producer.flush(10)
