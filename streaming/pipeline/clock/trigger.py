"""When batches begin: every `trigger_ms`, measured by the monotonic clock, and at deadlines.

Spark's own trigger waits for an instant of the wall clock; if that clock is set back by an hour,
every batch is an hour late. So Spark gets an interval of 0, and the pause happens here: after a
batch for the rest of the interval, and without input through Spark's polling delay. Beside fronts
it is longer after much traffic, and before much on a busy machine even longer (`flow/pace.py`).

An idle shard has no input: once its deadline has passed, the log gets a `tick` for it (D4).
"""

import logging
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from streaming.broker.message import NEVER
from streaming.config import JobConfig
from streaming.machine_cores import LOOK_S, Cores
from streaming.pipeline.reports import ShardReport
from streaming.pipeline.task import TaskSettings
from streaming.protocol.record_headers import OP, VHOST
from streaming.record_sender import RecordSender, SendError

SPARK_TRIGGER = "0 seconds"
POLLING_DELAY = "spark.sql.streaming.pollingDelay"

logger = logging.getLogger(__name__)

CHECK_S = 1.0
"""How often the wall clock is read: it may be set forward, or the machine may have slept."""
FLUSH_TIMEOUT_S = 10


class Trigger:
    """The pauses between the batches of one job.

    Args:
        cores: of this machine, if fronts share them.
    """

    def __init__(self, trigger_ms: int, cores: Cores | None = None) -> None:
        self._trigger_ms = trigger_ms
        self._cores = cores
        self._began_s = 0.0
        self._stopping = threading.Event()

    def set_polling_delay(self, spark: SparkSession) -> None:
        """Set the pause between two looks for input; call this before the query starts."""
        if self._trigger_ms:
            spark.conf.set(POLLING_DELAY, f"{self._trigger_ms}ms")

    def batch_began(self) -> None:
        """Start the interval."""
        self._began_s = time.monotonic()
        if self._cores is not None:
            self._cores.look()

    def wait(
        self,
        least_s: float = 0.0,
        longest_s: float = 0.0,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wait until the interval has passed and the machine is not busy, or until `stop`.

        Args:
            least_s: how long the interval is, at least.
            longest_s: how long after the batch began the next begins even on a busy machine.
            may_wait: whether the next should wait for a core, by what it will read.
        """
        self._wait_until(max(self._trigger_ms / 1000, least_s))
        cores = self._cores
        while cores is not None and not self._stopping.is_set():
            passed_s = time.monotonic() - self._began_s
            if passed_s >= longest_s:
                return
            if cores.since_s >= LOOK_S and not (cores.look() and may_wait()):
                return
            self._wait_until(min(longest_s, passed_s + max(LOOK_S - cores.since_s, 0.0)))

    def _wait_until(self, interval_s: float) -> None:
        left_s = self._began_s + interval_s - time.monotonic()
        if left_s > 0:
            self._stopping.wait(left_s)

    def stop(self) -> None:
        """End the current pause, and all later ones."""
        self._stopping.set()


class Ticks:
    """Writes a tick at each shard's next deadline, with `clock = wall` only."""

    def __init__(
        self,
        config: JobConfig,
        settings: TaskSettings,
        sender: RecordSender,
        partitions: dict[str, int],
        deadlines: dict[int, int],
        now_ms: Callable[[], int],
    ) -> None:
        self._is_wall = config.job.clock == "wall"
        self._settings = settings
        self._now_ms = now_ms
        commands = [each.topic for each in config.inputs if each.source == "commands"]
        self._topic = commands[0] if commands else None
        self._partitions = partitions.get(self._topic or "", 1)
        self._sender = sender
        # A shard that is no longer configured gets no ticks.
        self._deadlines = {
            shard: at_ms for shard, at_ms in deadlines.items() if shard in settings.shards
        }
        self._changed = threading.Condition()
        self._stopping = False
        if self._is_wall:
            threading.Thread(target=self._run, name="ticks", daemon=True).start()

    def batch_done(self, reports: list[ShardReport]) -> None:
        """Set the deadlines of a batch's shards."""
        with self._changed:
            for report in reports:
                self._deadlines[report.shard] = report.next_deadline_ms
            self._changed.notify()

    def wake(self) -> None:
        """Let a batch run now, with `clock = wall`; with `event` a tick would move time."""
        if self._is_wall:
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
                    self._changed.wait(min((earliest - now_ms) / 1000, CHECK_S))
                    continue
                due = [shard for shard, at_ms in self._deadlines.items() if at_ms <= now_ms]
                for shard in due:
                    self._deadlines[shard] = NEVER  # the tick's batch reports the next one
            for shard in due:
                if not self._tick(shard):
                    self._retry(shard)

    def _retry(self, shard: int) -> None:
        with self._changed:
            again_ms = self._now_ms() + int(CHECK_S * 1000)
            self._deadlines[shard] = min(self._deadlines[shard], again_ms)

    def _tick(self, shard: int) -> bool:
        """Write a tick; return whether Kafka has it."""
        if self._topic is None:
            return True
        config = self._settings.shards[shard]
        headers = [(OP, b"tick"), (VHOST, config.vhost.encode())]
        partition = config.lane % self._partitions
        try:
            value = b'{"op":"tick","lane":%d}' % config.lane
            self._sender.send(self._topic, value, partition=partition, headers=headers)
            self._sender.flush(FLUSH_TIMEOUT_S)
        except SendError as error:
            logger.warning("a tick for vhost %r could not be written: %s", config.vhost, error)
            return False
        return True
