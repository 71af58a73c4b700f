"""Time for idle shards: when a deadline is due, a `tick` is written into the log (D4)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from streaming.broker.message import NEVER
from streaming.protocol.headers import OP, VHOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.config import JobConfig
    from streaming.pipeline.fold.processor import ShardReport
    from streaming.pipeline.task.context import TaskSettings

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often the wall's clock is looked at: it may be put forward, or have slept."""
FLUSH_S = 10


class Ticks:
    """Knows each shard's next deadline and wakes it, with `clock = wall` only.

    Args:
        now_ms: says what the job's time is.
    """

    def __init__(
        self,
        config: JobConfig,
        settings: TaskSettings,
        producer: dict[str, str],
        partitions: dict[str, int],
        deadlines: dict[int, int],
        now_ms: Callable[[], int],
    ) -> None:
        self._wall = config.job.clock == "wall"
        self._settings = settings
        self._now_ms = now_ms
        commands = [each for each in config.inputs if each.source == "commands"]
        self._topic = commands[0].topic if commands else None
        self._partitions = partitions.get(self._topic or "", 1)
        self._producer = (
            Producer({**producer, "log_level": 0, "linger.ms": 0}) if self._wall else None
        )
        # A shard that is no longer configured has nobody to wake.
        self._deadlines = {
            shard: at_ms for shard, at_ms in deadlines.items() if shard in settings.shards
        }
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
                now_ms = self._now_ms()
                if earliest > now_ms:
                    wait_s = min((earliest - now_ms) / 1000, LOOK_S)
                    self._changed.wait(wait_s)
                    continue
                due = [shard for shard, at_ms in self._deadlines.items() if at_ms <= now_ms]
                for shard in due:
                    self._deadlines[shard] = NEVER  # the batch that the tick makes says the next
            for shard in due:
                if not self._tick(shard):
                    self._try_again(shard)

    def _try_again(self, shard: int) -> None:
        with self._changed:
            again_ms = self._now_ms() + int(LOOK_S * 1000)
            self._deadlines[shard] = min(self._deadlines[shard], again_ms)

    def _tick(self, shard: int) -> bool:
        """Write a tick; whether Kafka has it."""
        if self._topic is None or self._producer is None:
            return True
        config = self._settings.shards[shard]
        partition = config.lane % self._partitions
        headers: list[tuple[str, str | bytes | None]] = [
            (OP, b"tick"),
            (VHOST, config.vhost.encode()),
        ]
        taken: list[bool] = []
        try:
            self._producer.produce(
                self._topic,
                value=b'{"op":"tick"}',
                partition=partition,
                headers=headers,
                on_delivery=lambda error, _message: taken.append(error is None),
            )
            self._producer.flush(FLUSH_S)
        except (BufferError, KafkaException) as error:
            logger.warning("a tick could not be written: %s", error)
            return False
        return taken == [True]
