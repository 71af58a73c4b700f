"""How often batches begin: every `trigger_ms`, by the monotonic clock.

Spark's own trigger waits until the wall's clock has reached an instant; put back by an hour, the
wall would hold up every batch for an hour. So Spark is told not to wait (an interval of 0), and the
pause is made here: after a batch with what is left of the interval, and by Spark's polling delay
while there is no input.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TRIGGER = "0 seconds"
POLLING_DELAY = "spark.sql.streaming.pollingDelay"


class Pace:
    """The pauses of one job."""

    def __init__(self, trigger_ms: int) -> None:
        self._trigger_ms = trigger_ms
        self._began_s = 0.0
        self._stopping = threading.Event()

    def set_idle_pause(self, spark: SparkSession) -> None:
        """Before the query starts: how long it waits to look for input again."""
        if self._trigger_ms:
            spark.conf.set(POLLING_DELAY, f"{self._trigger_ms}ms")

    def batch_begins(self) -> None:
        """A batch begins."""
        self._began_s = time.monotonic()

    def batch_ended(self) -> None:
        """Wait until the next batch may begin, or until `stop`."""
        left_s = self._began_s + self._trigger_ms / 1000 - time.monotonic()
        if left_s > 0:
            self._stopping.wait(left_s)

    def stop(self) -> None:
        """No more pauses."""
        self._stopping.set()
