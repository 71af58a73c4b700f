"""What keeps the tables healthy and `queue_contents` current, beside the batches (D8b)."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from streaming.contents.lowest_resident import lowest_resident
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.upkeep.maintenance import Maintenance, Schedule
from streaming.pipeline.topics.trimming import Trimming
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import largest_queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.config import JobConfig, TablesSettings
    from streaming.contents.lowest_resident import Lowest
    from streaming.ledger.write.ledger import Ledger
    from streaming.pipeline.checkpoint.checkpoint import Checkpoint

LOOK_S = 60.0
"""Pause between two looks at what is resident where; a look reads one column of the contents."""

NAMED_QUEUES = 3
"""How many queues are named as filling the memory."""

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
    """Runs the maintenance of the ledger; updates `queue_contents` when there is something new.

    Args:
        properties: librdkafka's; may hold secrets.

    Attributes:
        lowest: from where on messages may be in queues, as of the last look.
    """

    def __init__(
        self, config: JobConfig, ledger: Ledger, checkpoint: Checkpoint, properties: dict[str, str]
    ) -> None:
        self._config = config
        self._tables = ledger.root
        self._checkpoint = checkpoint
        self._numbers = {
            name: checkpoint.job_file.topics[identity]
            for identity, name in checkpoint.job_file.topic_names.items()
        }
        self.lowest: Lowest = {}
        self._changed = threading.Condition()
        self._behind = checkpoint.query_id() is not None
        self._held_back = False
        self._told = False  # who fills the memory, since publishers are held back
        self._stopping = False
        self._contents = ContentsUpdater(self._tables, retention=retention(config.tables))
        self._trimming = Trimming(config, properties, self._numbers)
        self._trim_s = config.kafka.trim_interval_ms / 1000 if config.job.clock == "wall" else 0.0
        self._looked_s = self._trimmed_s = time.monotonic()
        self._maintenance = Maintenance(
            self._tables, schedule(config.tables), ledger.writers, lambda: self.lowest
        )
        self._thread = threading.Thread(target=self._run, name="contents", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._maintenance.start()
        self._thread.start()

    def batch_done(self, *, held_back: bool = False) -> None:
        """There are new events; publishers are held back, or not."""
        with self._changed:
            self._behind = True
            self._held_back = held_back
            self._changed.notify()

    def lowest_detail(self) -> dict[str, int]:
        """`lowest` for the batch row: `TOPIC NUMBER/PARTITION` -> offset."""
        return {
            f"{topic}/{partition}": at for (topic, partition), at in sorted(self.lowest.items())
        }

    def stop(self) -> None:
        """Bring the contents up to date and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        self._maintenance.stop()

    def _run(self) -> None:
        interval_s = self._config.tables.contents_lag_ms / 1000 / 2
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._behind or self._stopping, self._trim_s or None)
                behind, self._behind = self._behind, False
                held_back = self._held_back
                stopping = self._stopping
            if behind and not self._try(
                "queue_contents could not be updated", self._contents.update
            ):
                self._behind = True  # a quiet input brings no batch that would say so
            self._try(
                "what fills the memory could not be looked up",
                partial(self._tell_who_fills, held_back=held_back),
            )
            if stopping:
                return
            self._try("the inputs could not be trimmed", self._look_and_trim)
            with self._changed:  # new batches do not shorten it: each update costs a merge
                self._changed.wait_for(lambda: self._stopping, interval_s)

    def _tell_who_fills(self, *, held_back: bool) -> None:
        """Name the largest queues, once each time publishers are held back."""
        if not held_back or self._told:
            self._told = held_back
            return
        tables = Tables(self._tables.url, self._tables.options, threads=1)
        try:
            largest = largest_queues(tables, NAMED_QUEUES)
        finally:
            tables.close()
        self._told = True
        held = "; ".join(
            f"{one.queue!r} of vhost {one.vhost!r}: {one.bytes:,} bytes in {one.messages:,} "
            "messages"
            for one in largest
        )
        logger.warning("flow control: the largest queues are %s", held)

    def _look_and_trim(self) -> None:
        """Learn what is still needed, once in a while, and give back what is not."""
        now_s = time.monotonic()
        due = bool(self._trim_s) and now_s - self._trimmed_s >= self._trim_s
        query_id = self._checkpoint.query_id()
        if query_id is None or (not due and self.lowest and now_s - self._looked_s < LOOK_S):
            return
        self.lowest = lowest_resident(self._tables, query_id, self._numbers) or self.lowest
        self._looked_s = now_s
        committed = self._checkpoint.last_committed()
        if due and committed is not None:
            self._trimming.trim(self.lowest, self._checkpoint.offsets(committed).ends)
            self._trimmed_s = now_s

    def _try(self, failure: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except Exception:  # the batches go on; the next round tries again, and says so again
            logger.exception("%s", failure)
            return False
        return True
