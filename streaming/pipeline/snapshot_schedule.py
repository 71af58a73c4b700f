"""Writes snapshots and applies retention when that is due, in a thread of its own (D13).

A snapshot reads the events since the last one and writes every copy in the queues. So those that
the number of events makes due take a limited part of a processor, however many copies there are.
While batches need all processors, a snapshot gets what they leave.
"""

import logging
import threading
import time
from datetime import UTC, datetime
from typing import Final

from streaming.config import TablesSettings
from streaming.contents.retention import periods_of, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.upkeep.maintenance import lower_priority
from streaming.storage.location import Location

BACKLOG_FACTOR: Final = 10
"""After how many times as many events a snapshot is written while a backlog is worked off."""

CPU_SHARE: Final = 20
"""Snapshots that events make due take at most one part in 20 of a processor's time."""

EVENT_COST_S: Final = 10e-6
"""Processor time of a snapshot for each of its events, before the first one was measured."""

logger = logging.getLogger(__name__)


class SnapshotSchedule:
    """Writes the snapshots of a job's tables.

    Args:
        retention: how long the tables keep old log entries and removed files.
        is_wall: whether periods of retention end by the wall clock, not by the time of events.
    """

    def __init__(
        self, tables: Location, settings: TablesSettings, retention: Retention, *, is_wall: bool
    ) -> None:
        self._tables = tables
        self._writer = SnapshotWriter(tables, retention=retention)
        self._interval_s = settings.snapshot_interval_ms / 1000
        self._interval_events = settings.snapshot_interval_rows
        self._periods = periods_of(settings.retention)
        self._is_wall = is_wall
        self._lock = threading.Lock()
        self._events = 0
        self._last_s = time.monotonic()
        first_cost_s = EVENT_COST_S * settings.snapshot_interval_rows
        self._rested_s = self._last_s + (CPU_SHARE - 1) * first_cost_s
        self._thread: threading.Thread | None = None

    def add(self, events: int) -> None:
        """Count the events of a batch."""
        with self._lock:
            self._events += events

    def start_if_due(self, *, is_busy: bool) -> bool:
        """Start to write a snapshot if that is due and anything has happened since the last time.

        Args:
            is_busy: whether others need the processors: a backlog, or a burst beside fronts.

        Returns:
            Whether one was put off because of that, or because of the last one, which goes on or
            has taken too much of late.
        """
        now_s = time.monotonic()
        with self._lock:
            is_written = self._thread is not None and self._thread.is_alive()
            most = self._interval_events * (BACKLOG_FACTOR if is_busy else 1)
            is_late = now_s - self._last_s >= self._interval_s
            has_rested = now_s >= self._rested_s
            is_due = is_late or (self._events >= most and has_rested)
            if is_written or not self._events or not is_due:
                return self._events >= self._interval_events
            self._events = 0
        self._last_s = now_s
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()
        return False

    def stop(self) -> None:
        """Wait for the end of a snapshot that has begun."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        lower_priority()
        began_s = time.thread_time()
        try:
            self._write_snapshot()
        except Exception:  # batches continue; the next snapshot covers this one's events
            logger.exception("the snapshot could not be written")
        self._rested_s = time.monotonic() + (CPU_SHARE - 1) * (time.thread_time() - began_s)

    def _write_snapshot(self) -> None:
        done = self._writer.write()
        if done is None:
            return
        logger.info(
            "wrote a snapshot after batch %d: %d copies in queues, %.1f s",
            *(done.batch_id, done.copies, done.seconds),
        )
        now = datetime.now(UTC) if self._is_wall else None
        for one in retain(self._tables, self._periods, now):
            logger.info(
                "retention removed %d rows of %s up to batch %d and kept %d that are still needed",
                *(one.rows, one.table, one.batch_id, one.kept),
            )
