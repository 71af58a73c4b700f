"""Whether the stream makes progress: what `/healthz` and `/readyz` answer.

A thread that answers HTTP proves nothing about the stream. These answers follow from batches: one
runs too long, or records wait in Kafka and no batch reads them, or the query has ended. An idle job
runs no batch and is healthy.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

ANSWER_TIMEOUT_S: Final = 60.0
"""Spark's JVM must have answered within this time."""


class Verdict(NamedTuple):
    """An answer: why the job is not well; empty if it is."""

    fault: str = ""


class Health:
    """Follows the progress of the stream.

    Args:
        stalled_s: how long a batch may run, or records may wait for one.
        monotonic: the clock; seconds.
    """

    def __init__(
        self,
        stalled_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stalled_s = stalled_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._waiting_since_s: float | None = None
        self._answered_s: float | None = None
        self._is_stopping = False
        self._needs_batch = True

    def started(self, *, needs_batch: bool) -> None:
        """Notify that the query runs.

        Args:
            needs_batch: whether a first batch comes by itself; with `clock = event`, it does not.
        """
        with self._lock:
            self._needs_batch = needs_batch
            self._answered_s = self._monotonic()

    def batch_ended(self) -> None:
        """Notify that a batch is committed."""
        with self._lock:
            self._began_s, self._ended_s = None, self._monotonic()
            self._waiting_since_s = None

    def answered(self, *, is_running: bool) -> None:
        """Notify that Spark has answered, and whether it says that a batch runs."""
        with self._lock:
            self._answered_s = self._monotonic()
            if not is_running:
                self._began_s = None
            elif self._began_s is None:
                self._began_s = self._answered_s

    def waiting(self, *, records: bool) -> None:
        """Notify whether records wait in Kafka that the gate lets pass."""
        with self._lock:
            if not records:
                self._waiting_since_s = None
            elif self._waiting_since_s is None:
                self._waiting_since_s = self._monotonic()

    def stopping(self) -> None:
        """Notify that the job stops."""
        with self._lock:
            self._is_stopping = True

    def alive(self) -> Verdict:
        """Return whether the stream is not stuck; a job that still starts is not."""
        now_s = self._monotonic()
        with self._lock:
            if self._answered_s is not None and now_s - self._answered_s > ANSWER_TIMEOUT_S:
                return Verdict(f"Spark has not answered for {now_s - self._answered_s:.0f} s")
            for what, since_s in (
                ("a batch has been running", self._began_s),
                ("records wait and no batch has read them", self._waiting_since_s),
            ):
                if since_s is not None and now_s - since_s > self._stalled_s:
                    return Verdict(f"{what} for {now_s - since_s:.0f} s")
        return Verdict()

    def ready(self) -> Verdict:
        """Return whether the job processes what arrives."""
        with self._lock:
            if self._is_stopping:
                return Verdict("the job stops")
            if self._answered_s is None:
                return Verdict("the job starts")
            if self._ended_s is None and self._needs_batch:
                return Verdict("the first batch is not committed yet")
        return self.alive()
