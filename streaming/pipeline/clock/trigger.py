"""How often batches begin: every `trigger_ms`, measured by the monotonic clock.

Spark's own trigger waits for an instant of the wall clock; if that clock is set back by an hour,
every batch is an hour late. So Spark gets an interval of 0, and the pause happens here: after a
batch for the rest of the interval, and without input through Spark's polling delay.
"""

import threading
import time

from pyspark.sql import SparkSession

SPARK_TRIGGER = "0 seconds"
POLLING_DELAY = "spark.sql.streaming.pollingDelay"


class Trigger:
    """The pauses between the batches of one job."""

    def __init__(self, trigger_ms: int) -> None:
        self._trigger_ms = trigger_ms
        self._began_s = 0.0
        self._stopping = threading.Event()

    def set_polling_delay(self, spark: SparkSession) -> None:
        """Set the pause between two looks for input; call this before the query starts."""
        if self._trigger_ms:
            spark.conf.set(POLLING_DELAY, f"{self._trigger_ms}ms")

    def batch_began(self) -> None:
        """Start the interval."""
        self._began_s = time.monotonic()

    def wait(self) -> None:
        """Wait until the interval has passed, or until `stop`."""
        left_s = self._began_s + self._trigger_ms / 1000 - time.monotonic()
        if left_s > 0:
            self._stopping.wait(left_s)

    def stop(self) -> None:
        """End the current pause, and all later ones."""
        self._stopping.set()
