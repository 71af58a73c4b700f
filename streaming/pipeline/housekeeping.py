"""Keeps the tables healthy and what follows from them current, off the batches' path (D8b)."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from streaming.config import JobConfig, TablesSettings
from streaming.contents.lowest_resident import Lowest, lowest_resident
from streaming.contents.search_index import SearchIndexer
from streaming.contents.updater import ContentsUpdater
from streaming.kafka_offsets import quiet_admin
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.upkeep.maintenance import Maintenance, Schedule
from streaming.ledger.write.ledger import Ledger
from streaming.machine_cores import LOOK_S, Cores
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.flow.busy_traffic import BusyTraffic
from streaming.pipeline.snapshot_schedule import SnapshotSchedule
from streaming.pipeline.topics.trimming import Trimming
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import largest_queues
from streaming.spark.session import shares_cores

LOWEST_INTERVAL_S = 60.0
"""How often the lowest resident offsets are read; that reads one column of queue_contents."""

NAMED_QUEUES = 3
"""How many of the largest queues are logged when publishes are throttled."""

BACKLOG_LAG_FACTOR = 6
"""How many times `contents_lag_ms` the contents may lag behind while a backlog is worked off."""

BACKLOG_NET_BYTES = 16 * 1024 * 1024
"""Net changes of that size are applied even then: they take memory."""

logger = logging.getLogger(__name__)


def retention(tables: TablesSettings) -> Retention:
    """Return how long the tables keep old log entries and removed files."""
    return Retention(log_ms=tables.log_retention_ms)


class Housekeeping:
    """Maintains the ledger, updates `queue_contents`, writes snapshots, and trims the inputs.

    Attributes:
        lowest: the lowest offsets of messages that may be in queues.
        nets: net changes of committed batches, for the next update of `queue_contents`.
    """

    def __init__(
        self, config: JobConfig, ledger: Ledger, checkpoint: Checkpoint, properties: dict[str, str]
    ) -> None:
        tables = config.tables
        manifest = checkpoint.manifest
        self._interval_s = tables.contents_lag_ms / 1000 / 2  # the update itself takes time too
        self._tables = ledger.root
        self._logs = checkpoint.logs
        self._numbers = {
            name: manifest.topics[identity] for identity, name in manifest.topic_names.items()
        }
        self.lowest: Lowest = {}
        self._changed = threading.Condition()
        self._is_behind = self._logs.query_id() is not None
        self._is_full = False
        self._has_named_queues = False
        self._stopping = False
        self._contents = ContentsUpdater(self._tables, retention=retention(tables))
        self.nets = self._contents.nets
        query_id = self._logs.query_id()
        last = None if query_id is None else ledger.last_batches(query_id).get(LEDGER[-1])
        after = -1 if last is None else last
        self._search = SearchIndexer(self._tables, tables.search, after, retention(tables))
        is_wall = config.job.clock == "wall"
        self._snapshots = SnapshotSchedule(self._tables, tables, retention(tables), is_wall=is_wall)
        self._trimming = Trimming(
            config,
            quiet_admin(properties),
            manifest.topic_names,
            self._numbers,
            checkpoint.path,
        )
        self._trim_s = config.kafka.trim_interval_ms / 1000 if is_wall else 0.0
        self._read_lowest_s = self._trimmed_s = time.monotonic()
        schedule = Schedule(
            checkpoint_commits=tables.checkpoint_interval_commits,
            compaction_ms=tables.compaction_interval_ms,
            target_bytes=tables.compaction_target_bytes,
            vacuum_ms=tables.vacuum_interval_ms,
            vacuum_grace_ms=tables.vacuum_retention_ms,
        )
        self._traffic = BusyTraffic(Cores() if shares_cores(config) else None)
        self._maintenance = Maintenance(
            self._tables,
            schedule,
            ledger.writers,
            lambda: self.lowest,
            self._traffic.puts_upkeep_off,
            has_burst=self._traffic.has_burst if config.log_topics() else None,
        )
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._maintenance.start()
        self._thread.start()

    def batch_began(self) -> None:
        """Notify that a batch runs."""
        self._traffic.batch_began()

    def batch_done(
        self,
        *,
        is_full: bool = False,
        events: int = 0,
        has_backlog: bool = False,
        is_busy: bool = False,
    ) -> None:
        """Notify that a batch has added events.

        Args:
            is_full: publishes are throttled because of resident messages.
            events: how many.
            has_backlog: it has left publishes behind; compaction waits.
            is_busy: it had much traffic of fronts; compaction and snapshots wait for the end of a
                burst.
        """
        self._traffic.batch_done(has_backlog=has_backlog, is_busy=is_busy)
        self._snapshots.add(events)
        with self._changed:
            self._is_behind = True
            self._is_full = is_full
            self._changed.notify()

    def lowest_detail(self) -> dict[str, int]:
        """Return `lowest` for the batch row: `TOPIC NUMBER/PARTITION` -> offset."""
        return {
            f"{topic}/{partition}": at for (topic, partition), at in sorted(self.lowest.items())
        }

    def stop(self) -> None:
        """Update the contents a last time, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        self._snapshots.stop()
        self._maintenance.stop()

    def _run(self) -> None:
        is_put_off = False
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_behind or self._stopping,
                    LOOK_S if is_put_off else self._trim_s or None,
                )
                is_behind, self._is_behind = self._is_behind, False
                is_full = self._is_full
                stopping = self._stopping
            if is_behind and not self._try(
                "queue_contents could not be updated", self._contents.update
            ):
                self._is_behind = True  # without input, no batch would trigger the next attempt
            self._try("the values of tables.search could not be indexed", self._index)
            self._try(
                "the largest queues could not be read",
                partial(self._name_largest_queues, is_full=is_full),
            )
            if stopping:
                return
            is_put_off = self._snapshots.start_if_due(is_busy=self._traffic.puts_upkeep_off())
            self._try("the inputs could not be trimmed", self._read_lowest_and_trim)
            self._pause()

    def _index(self) -> None:
        """Index the values by which messages are found."""
        query_id = self._logs.query_id()
        done = None if query_id is None else self._search.update(query_id)
        if done is not None and done.is_behind:
            self._is_behind = True

    def _pause(self) -> None:
        """Wait for the next update: a fixed time, and longer while a backlog is worked off.

        New batches do not shorten it: each update rewrites files. What enters a queue and leaves it
        between two updates costs nothing.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, self._interval_s)
            longest_s = (2 * BACKLOG_LAG_FACTOR - 1) * self._interval_s
            self._changed.wait_for(
                lambda: (
                    self._stopping
                    or not self._traffic.has_backlog
                    or self.nets.bytes > BACKLOG_NET_BYTES
                ),
                longest_s,
            )

    def _name_largest_queues(self, *, is_full: bool) -> None:
        """Log the largest queues, once each time they cause publishes to be throttled."""
        if not is_full or self._has_named_queues:
            self._has_named_queues = is_full
            return
        tables = Tables(self._tables.url, self._tables.options, threads=1)
        try:
            largest = largest_queues(tables, NAMED_QUEUES)
        finally:
            tables.close()
        self._has_named_queues = True
        sizes = "; ".join(
            f"{one.queue!r} of vhost {one.vhost!r}: {one.bytes:,} bytes in {one.messages:,} "
            "messages"
            for one in largest
        )
        logger.warning("flow control: the largest queues are %s", sizes)

    def _read_lowest_and_trim(self) -> None:
        """From time to time, read which offsets are still needed, and delete older records."""
        now_s = time.monotonic()
        is_due = bool(self._trim_s) and now_s - self._trimmed_s >= self._trim_s
        query_id = self._logs.query_id()
        is_recent = bool(self.lowest) and now_s - self._read_lowest_s < LOWEST_INTERVAL_S
        if query_id is None or (is_recent and not is_due):
            return
        self.lowest = lowest_resident(self._tables, query_id, self._numbers) or self.lowest
        self._read_lowest_s = now_s
        committed = self._logs.last_committed()
        if is_due and committed is not None:
            self._trimming.trim(self.lowest, self._logs.offsets(committed).ends)
            self._trimmed_s = now_s

    def _try(self, failure: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except Exception:  # batches continue; the next round tries again
            logger.exception("%s", failure)
            return False
        return True
