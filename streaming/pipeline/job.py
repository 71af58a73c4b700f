"""The job, top to bottom: start, batch after batch, stop.

    prepare: topics, numbers, tables, session
    each batch (foreachBatch): run the stages, collect the reports, commit the ledger
    between batches: the gate, ticks, contents, upkeep
    stop: close the gate, let the batch finish, stop the query

Replay: Spark runs a batch again whose end it did not log. The stages write the same files and say
the same; tables that have the batch are skipped (`ledger/commit.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.config import (
    JobConfig,
    jvm_properties,
    librdkafka_properties,
    outcome_hash,
    outcome_settings,
    reveal,
)
from streaming.ledger.storage import Place
from streaming.ledger.write.batch_row import BatchRow, totals
from streaming.pipeline.checkpoint.checkpoint import CORE_VERSION, Checkpoint
from streaming.pipeline.checkpoint.folders import open_ledger
from streaming.pipeline.checkpoint.shard_keys import keep_shards
from streaming.pipeline.checkpoint.table_match import look_at_tables
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.clock.ticks import Ticks
from streaming.pipeline.clock.trigger import SPARK_TRIGGER, Pace
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import memory_marks, this_machine
from streaming.pipeline.observe.failures import SparkLostError, wait_for_end
from streaming.pipeline.query import streaming_plan
from streaming.pipeline.reports import BatchDone, read_reports
from streaming.pipeline.shard_stats import ShardsSeen
from streaming.pipeline.task.context import tell_tasks
from streaming.pipeline.task.settings import task_settings
from streaming.pipeline.topics.accepted_loss import AcceptedLoss, face_holes
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.pipeline.topics.definitions_import import write_imports
from streaming.pipeline.topics.gap_watch import LogWatch
from streaming.pipeline.upkeep.housekeeping import Upkeep, retention
from streaming.protocol.headers import WIRE_VERSION
from streaming.spark.session import available_cores, make_session, session_config, stop_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from streaming.ledger.write.ledger import Ledger
    from streaming.pipeline.flow.gate import GateState
    from topology.declarations import Definitions

STOP_TIMEOUT_S = 120
"""How long to wait for the batch that runs when the job is stopped."""


class Job:
    """A job from its configuration.

    Args:
        on_batch: called after each committed batch, on Spark's thread.
        progress: shows bars while jars are downloaded.
    """

    def __init__(
        self,
        config: JobConfig,
        on_batch: Callable[[BatchDone], None] | None = None,
        progress: Console | None = None,
    ) -> None:
        self.config = config
        self._on_batch = on_batch
        self._progress = progress
        self._producer = librdkafka_properties(config.kafka, os.environ)
        self._jvm = jvm_properties(config.kafka, os.environ)
        self.tables = Place(
            config.job.tables_location,
            reveal(config.tables.storage_options, "tables.storage_options", os.environ),
        )
        self.checkpoint = Checkpoint(Path(config.job.checkpoint_location))
        self._query: StreamingQuery | None = None
        self._spark: SparkSession | None = None
        self._ledger: Ledger | None = None
        self._clock: JobClock  # once the checkpoint is open
        self._pace = Pace(config.job.trigger_ms)
        self._ticks: Ticks | None = None
        self._watch: LogWatch | None = None
        self._loss: AcceptedLoss | None = None
        self.marks = memory_marks(config.flow, this_machine())
        self.shards = ShardsSeen(None)
        self._flow = FlowControl(config, self.marks)
        self._upkeep: Upkeep | None = None
        self.committed = threading.Event()

    # -- start

    def start(
        self,
        spark: SparkSession | None = None,
        definitions: Mapping[str, Definitions] | None = None,
        *,
        accept_loss: bool = False,
    ) -> None:
        """Prepare everything and start the query.

        Args:
            accept_loss: go on behind records that Kafka has lost, with a quarantine row a range.
            definitions: by vhost, imported before the first message, and never again.
            spark: a session to use; by default the job makes its own and stops it at the end.

        Raises:
            DlxError: something is not as it must be; in words.
        """
        self.checkpoint.lock()
        topics = KafkaTopics(self.config, dict(self._producer))
        topics.prepare()
        partitions = self.config.job.shuffle_partitions or available_cores()
        self._ledger = open_ledger(self.tables, retention(self.config.tables))
        self.checkpoint.open(
            partitions,
            outcome_hash(self.config, core_version=CORE_VERSION, wire_version=WIRE_VERSION),
            outcome_settings(self.config),
            look_at_tables(self._ledger, self.checkpoint.query_id()),
        )
        self._learn_of_last_batch()
        keep_shards(self.config, self.checkpoint.job_file, self.shards)
        self._loss = face_holes(self.checkpoint, topics, self._ledger, accept_loss=accept_loss)
        self._watch = LogWatch(self.config, topics, self.checkpoint)
        settings = task_settings(
            self.config, self.tables, self.checkpoint.job_file, topics, self._producer
        )
        self.checkpoint.save()
        importing = bool(definitions) and not self.checkpoint.has_planned()
        if importing:
            write_imports(self.config, definitions or {}, self._producer)
        if spark is None:
            spark = self._spark = make_session(
                session_config(self.config, os.environ), self._progress
            )
        self._ticks = Ticks(
            self.config,
            settings,
            dict(self._producer),
            topics.partitions,
            self.shards.deadlines,
            self._clock.now_ms,
        )
        self._flow.tell(self.checkpoint.path, topics.partitions, self._producer)
        self._upkeep = Upkeep(self.config, self._ledger, self.checkpoint, dict(self._producer))
        self._upkeep.start()
        first_rows = self._flow.first_rows(spark, importing=importing)
        self._pace.set_idle_pause(spark)
        plan = streaming_plan(spark, self.config, settings, dict(self._jvm), first_rows)
        self._query = (
            plan.writeStream.foreachBatch(self._commit)
            .outputMode("append")
            .option("checkpointLocation", str(self.checkpoint.path))
            .queryName("dlx")
            .trigger(processingTime=SPARK_TRIGGER)
            .start()
        )
        self._flow.attach(spark, self._query)
        if self._loss.holes:
            self.wake()  # the rows about them belong to a batch

    def _learn_of_last_batch(self) -> None:
        """What the last batch row says: what is resident, deadlines, the gate."""
        assert self._ledger is not None
        query_id = self.checkpoint.query_id()
        row = self._ledger.last_batch(query_id) if query_id else None
        detail = row.detail if row is not None else {}
        self.shards = ShardsSeen(detail)
        is_wall = self.config.job.clock == "wall"
        self._clock = JobClock(self.checkpoint, row.now_ms if row else 0, is_wall=is_wall)
        self._flow.resume(detail, self.shards)

    # -- a batch

    def _commit(self, frame: DataFrame, batch_id: int) -> None:
        """Run the stages of a batch and commit what came of them."""
        started = time.perf_counter()
        self._pace.batch_begins()
        offsets = self.checkpoint.offsets(batch_id)
        now_ms = self._clock.of_batch(batch_id, offsets.now_ms)
        tell_tasks(frame.sparkSession, now_ms)
        reports = read_reports(frame.collect())
        ran = time.perf_counter()
        query_id = self.checkpoint.query_id()
        assert query_id is not None, "a batch without a query"
        assert self._ledger is not None
        assert self._watch is not None
        assert self._loss is not None
        self._watch.check_mapped_topics()
        files = [*reports.files, *self._loss.files(self._ledger, query_id, batch_id)]
        self.shards.learn(reports.shards)
        detail: dict[str, Any] = {
            "offsets": offsets.ends,
            "configuration": self.checkpoint.job_file.outcome_hash,
            "core_version": CORE_VERSION,
            **self.shards.detail(),
            "gate": msgspec.to_builtins(self._flow.decide(self.shards)),
            "lowest_resident": {} if self._upkeep is None else self._upkeep.lowest_detail(),
            **reports.cut_detail(),
            **totals(files),
        }
        committed = self._ledger.commit(files, BatchRow(query_id, batch_id, now_ms, detail))
        self._loss.written()
        self.checkpoint.written.committed(batch_id, committed.tables)
        spent = {"stages": ran - started, "commit": sum(committed.seconds.values())}
        seconds = {part: round(each, 4) for part, each in spent.items()}
        done = reports.done(batch_id, now_ms, seconds)
        self._flow.apply()
        if self._ticks is not None:
            self._ticks.batch_done(reports.shards)
        if self._upkeep is not None:
            self._upkeep.batch_done(held_back=not self._flow.state.open)
        if self._on_batch is not None:
            self._on_batch(done)
        self.committed.set()
        self._pace.batch_ended()

    @property
    def gate_state(self) -> GateState:
        """Where the gate of flow control stands."""
        return self._flow.state

    # -- running and stopping

    @property
    def query(self) -> StreamingQuery:
        """The running query."""
        assert self._query is not None, "the job was not started"
        return self._query

    def wake(self) -> None:
        """Let a batch run now, with `clock = wall`; with `event` only records make batches."""
        if self._ticks is not None:
            self._ticks.wake()

    def wait(self, seconds: float) -> bool:
        """Wait; True if the query has ended.

        Raises:
            DlxError: Kafka has lost records that were to be read, or Spark's JVM has ended.
            StreamingQueryException: it ended by another failure.
        """
        try:
            return wait_for_end(self.query, seconds, self._watch, self._spark)
        except SparkLostError:
            self._query = None
            raise

    def stop(self) -> None:
        """Stop the query between batches, give everything back; harmless twice."""
        self._pace.stop()
        if self._ticks is not None:
            self._ticks.stop()
        self._flow.stop()
        query, self._query = self._query, None
        if query is not None:
            self._flow.end_batches(query, STOP_TIMEOUT_S)
            query.stop()
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._upkeep is not None:
            self._upkeep.stop()
            self._upkeep = None
        if self._spark is not None:
            stop_session(self._spark)
            self._spark = None
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        self.checkpoint.unlock()
