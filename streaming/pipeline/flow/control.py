"""Flow control of one job: the gate, the sources' read limits, and notices to clients (D9)."""

import logging
import math
import os
import threading
from collections.abc import Container, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.config import JobConfig
from streaming.config.model import job_address
from streaming.config.shards import shard_config, terms_of
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.machine_memory import process_tree_bytes
from streaming.pipeline.flow.batch_size import Gate
from streaming.pipeline.flow.heartbeat import TIMEOUT_MS, Heartbeat
from streaming.pipeline.flow.log_bounds import LogBounds
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.notices import FlowNotices
from streaming.pipeline.flow.pace import (
    CommandPace,
    Pace,
    interval_s,
    is_worth_waiting,
    longest_wait_s,
)
from streaming.pipeline.flow.spark_read_limits import SparkReadLimits, is_supported, wait_for_batch
from streaming.pipeline.flow.waiting_records import WaitingRecords
from streaming.pipeline.reports import ShardStats
from streaming.protocol.addressing import JobMark
from streaming.record_sender import RecordSender
from streaming.spark.session import nice_of, shares_cores, spare_cores_of
from streaming.spark.yielding import LATE_PART, Yielding
from streaming.storage.location import AnyPath

MEASURE_S = 5.0
"""How often the memory of the job's processes is measured."""

logger = logging.getLogger(__name__)


class FlowControl:
    """Decides after each batch how much the next one may read.

    Attributes:
        state: the state of the gate.
        bounds: up to where logs may be read.
        interval_s: how long after the last batch began the next should begin, at least.
        longest_s: how long after it began the next may begin, while the machine is busy and much
            waits.
    """

    def __init__(
        self,
        config: JobConfig,
        marks: MemoryMarks,
        detail: BatchDetail,
        stats: ShardStats,
        sequenced: Container[int] = (),
    ) -> None:
        """Restore the gate from the detail of the last batch row.

        Args:
            sequenced: the shards of sequenced vhosts, by grouping key. Their messages do not count
                here: what would take them out of their queues is in the same log as what would be
                held back. The front holds their publishers back.
        """
        self._marks = marks
        self._job = config.job
        self._outbound = config.outbound_topics()
        self._addresses = [job_address(config, *pair) for pair in self._outbound]
        self._logs = config.log_topics()
        self._terms = {name: terms_of(shard_config(config, name)) for name in self._logs}
        self._topics = config.topics_of("publishes")
        self._command_topics = config.topics_of("commands")
        only_logs = config.vhosts.keys() <= self._logs.keys()
        self._pace = Pace(config.job.max_batch_rows, is_whole=only_logs)
        self._commands = CommandPace(config.job.max_batch_rows, config.job.max_batch_bytes)
        self._gate = Gate(
            marks,
            config.job.max_batch_rows,
            max_bytes=config.job.max_batch_bytes,
            is_open=detail.gate is None or detail.gate.open or detail.gate.cause == "memory",
            has_inputs=not only_logs,
        )
        self._stats = stats
        self._sequenced = sequenced
        self.bounds = LogBounds()
        self._process_bytes: int | None = None
        self._limits: SparkReadLimits | None = None
        self._notices: FlowNotices | None = None
        self._heartbeat: Heartbeat | None = None
        self._waiting: WaitingRecords | None = None
        self._yields = (nice_of(config), spare_cores_of(config)) if self._logs else (0, 0)
        self._waits = only_logs and shares_cores(config)
        self._max_lag_s = config.amqp.max_lag_ms / 1000
        self._max_lag_bytes = config.amqp.max_lag_bytes
        self._stalled_s = config.metrics.stalled_after_ms / 1000
        self._late_s = LATE_PART * self._max_lag_s
        self.interval_s = self.longest_s = 0.0
        self._yielding: Yielding | None = None
        self._lock = threading.RLock()
        self._is_late = False  # a batch ended before the query's start returned
        self._stopping = threading.Event()
        self.state: GateState = self.decide()

    def announce(
        self,
        checkpoint: AnyPath,
        job: JobMark,
        partitions: Mapping[str, int],
        producer: Mapping[str, str],
        ends: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Log the marks, and start to send notices and heartbeats.

        Args:
            ends: topic -> partition -> where the first batch begins.
        """
        for note in self._marks.notes:
            logger.log(note.level, note.text)
        self._notices = FlowNotices(checkpoint, self._marks, self._outbound, partitions, producer)
        self._notices.update(self.state)
        sender = RecordSender({**producer, "linger.ms": 0, "message.timeout.ms": TIMEOUT_MS})
        logs = (self._logs, ends, self._terms)
        self._heartbeat = Heartbeat(self._notices, self._addresses, job, sender, *logs)
        self._waiting = WaitingRecords(producer, self._logs.values())

    def first_rows(self, spark: SparkSession, *, importing: bool, commands: int = 0) -> int:
        """Return the most publishes of the first batch.

        Args:
            importing: definitions are imported, and must come before the publishes in the inputs.
            commands: how many wait; publishes wait for a backlog of them.
        """
        if not is_supported(spark):
            return self._job.max_batch_rows  # the limit could never be raised
        if self._job.clock == "wall":
            self._commands.expect(commands)
        return 0 if importing else self.next_rows

    def first_commands(self, spark: SparkSession) -> int:
        """Return the most commands of the first batch."""
        fixed = not is_supported(spark) or self._job.clock == "event"
        return self._job.max_batch_rows if fixed else self.next_commands

    def attach(self, spark: SparkSession, query: StreamingQuery) -> None:
        """Limit the sources of this query from now on, and watch the memory of its processes."""
        with self._lock:
            self._limits = SparkReadLimits(spark, query)
            if self._is_late:
                self._set_limits(self._limits)
        gateway = spark.sparkContext._gateway  # noqa: SLF001 - the only way to the JVM's process
        if gateway is not None and any(self._yields) and self._late_s:
            self._yielding = Yielding(gateway, *self._yields, self._late_s)
        if self._marks.process_high_bytes is not None:
            jvm = getattr(gateway, "proc", None)
            threading.Thread(
                target=self._watch_processes,
                args=(None if jvm is None else jvm.pid,),
                name="process-memory",
                daemon=True,
            ).start()

    def decide(self) -> GateState:
        """Update the state of the gate."""
        with self._lock:
            resident_bytes = self._stats.resident_bytes_without(self._sequenced)
            self.state = self._gate.decide(
                resident_bytes, self._stats.mean_bytes, self._process_bytes
            )
            return self.state

    def batch_done(
        self,
        publishes: int,
        seconds: float,
        commands: tuple[int, int] = (0, 0),
        *,
        records: int = 0,
    ) -> GateState:
        """Adapt the size of batches to one that has ended, and update the state of the gate.

        Args:
            commands: how many commands it has read, and their bytes.
            records: of any kind; a log has publishes among others, and all count as read.
        """
        with self._lock:
            read = records if self._pace.is_whole else publishes
            self._pace.batch_done(read, seconds, self.next_rows)
            if self._job.clock == "wall":
                self._commands.batch_done(*commands)
            state = self.decide()
            if self._logs:
                self.interval_s = interval_s(publishes, seconds, self._late_s or math.inf)
                waits = self._waits and self.next_rows and not self.has_backlog
                longest_s = longest_wait_s(seconds, self._max_lag_s, self._stalled_s)
                self.longest_s = longest_s if waits else 0.0
            return state

    def batch_began(self) -> None:
        """Tell clients and operators that a batch runs."""
        if self._heartbeat is not None:
            self._heartbeat.batch_began()
        if self._yielding is not None:
            self._yielding.batch_began()

    def batch_committed(self, batch_id: int, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Tell clients and operators which batch was committed last, and how far it has read."""
        self.bounds.committed(ends)
        if self._heartbeat is not None:
            self._heartbeat.batch_done(batch_id, ends)
        if self._yielding is not None:
            self._yielding.batch_done()

    def apply(self) -> None:
        """Set the read limit of the next batch, and tell publishers."""
        with self._lock:
            if self._notices is not None:
                self._notices.update(self.state)
            self._is_late = self._limits is None
            if self._limits is not None and not self._stopping.is_set():
                self._set_limits(self._limits)

    def _set_limits(self, limits: SparkReadLimits) -> None:
        limits.set_rows(self._topics, self.next_rows)
        if self._job.clock == "wall":
            limits.set_rows(self._command_topics, self.next_commands)

    @property
    def next_rows(self) -> int:
        """The most publishes of the next batch: what memory allows, and the traffic suggests.

        And no record beyond the bounds.
        """
        most = min(self.state.max_rows, self._pace.rows)
        return 0 if self.commands_wait else min(most, self.bounds.rows())

    @property
    def commands_wait(self) -> bool:
        """Whether publishes wait for a backlog of commands; the next batch must come even so."""
        return self._commands.has_backlog

    @property
    def next_commands(self) -> int:
        """The most commands of the next batch."""
        return self._commands.rows

    def may_wait(self) -> bool:
        """Whether what fronts have written makes a batch that should wait for a core."""
        if self._waiting is None:
            return False
        records = self._waiting.count(self.bounds.begins)
        return is_worth_waiting(records, self._stats.mean_bytes, self._max_lag_bytes)

    @property
    def has_backlog(self) -> bool:
        """Whether the last batch has left publishes behind."""
        return self._pace.has_backlog

    def end_batches(self, query: StreamingQuery, timeout_s: float) -> None:
        """Close all sources and wait until the running batch has ended."""
        with self._lock:
            self._stopping.set()
            if self._limits is not None and query.isActive:
                self._limits.close_all()
        wait_for_batch(query, timeout_s)

    def stop(self) -> None:
        """Stop sending notices and heartbeats."""
        self._stopping.set()
        if self._yielding is not None:
            self._yielding.stop()
            self._yielding = None
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._notices is not None:
            self._notices.stop()
            self._notices = None

    def measure(self, process_bytes: int | None) -> None:
        """Set the memory use of the job's processes; a change of the gate applies at once."""
        with self._lock:
            before = self.state
            self._process_bytes = process_bytes
            if self.decide().open != before.open:
                self.apply()

    def _watch_processes(self, jvm_pid: int | None) -> None:
        while not self._stopping.wait(MEASURE_S):
            try:
                self.measure(process_tree_bytes(os.getpid(), jvm_pid))
            except Exception:  # the next batch applies the gate, or reports the failure
                logger.debug("the memory of the job's processes was not applied", exc_info=True)
