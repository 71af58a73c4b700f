"""What keeps the tables healthy and `queue_contents` current, beside the batches (D8b)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from streaming.ledger.maintenance import Maintenance, Schedule
from streaming.ledger.tables import Retention
from streaming.tables.contents import ContentsUpdater

if TYPE_CHECKING:
    from streaming.config import JobConfig, TablesSettings
    from streaming.ledger.ledger import Ledger
    from streaming.ledger.storage import Place

logger = logging.getLogger(__name__)


def retention(tables: TablesSettings) -> Retention:
    """How long the tables keep what is no longer current."""
    return Retention(log_ms=tables.log_retention_ms)


def schedule(tables: TablesSettings) -> Schedule:
    """When the tables are looked after."""
    return Schedule(
        checkpoint_commits=tables.checkpoint_interval_commits,
        compaction_ms=tables.compaction_interval_ms,
        target_bytes=tables.compaction_target_bytes,
        vacuum_ms=tables.vacuum_interval_ms,
        vacuum_grace_ms=tables.vacuum_retention_ms,
    )


class Upkeep:
    """Runs the maintenance of the ledger; updates `queue_contents` when there is something new."""

    def __init__(self, config: JobConfig, tables: Place, ledger: Ledger | None) -> None:
        self._config = config
        self._tables = tables
        self._ledger = ledger
        self._changed = threading.Condition()
        self._new_batch = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._maintenance: Maintenance | None = None
        self._contents = ContentsUpdater(tables, retention=retention(config.tables))

    def start(self) -> None:
        """Begin."""
        assert self._ledger is not None
        self._maintenance = Maintenance(
            self._tables, schedule(self._config.tables), self._ledger.writers
        )
        self._maintenance.start()
        self._thread = threading.Thread(target=self._run, name="contents", daemon=True)
        self._thread.start()

    def batch_done(self, batch_id: int) -> None:
        """There are new events."""
        del batch_id
        with self._changed:
            self._new_batch = True
            self._changed.notify()

    def stop(self) -> None:
        """Bring the contents up to date and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        if self._maintenance is not None:
            self._maintenance.stop()

    def _run(self) -> None:
        interval_s = self._config.tables.contents_lag_ms / 1000 / 2
        while True:
            with self._changed:
                while not self._new_batch and not self._stopping:
                    self._changed.wait()
                new, self._new_batch = self._new_batch, False
                stopping = self._stopping
            if new:
                self._update_contents()
            if stopping:
                return
            with self._changed:
                if not self._stopping:
                    self._changed.wait(interval_s)

    def _update_contents(self) -> None:
        try:
            self._contents.update()
        except Exception:  # the batches go on; the next round tries again, and says so again
            logger.exception("queue_contents could not be updated")
