"""The job, top to bottom: start, batch after batch, stop.

    prepare: topics, numbers, tables, session
    each batch (foreachBatch): run the stages, collect the reports, commit the ledger
    between batches: the gate, ticks, contents, upkeep
    stop: close the gate, let the batch finish, stop the query

Replay: Spark runs a batch again whose end it did not log. The stages write the same files and say
the same; tables that have the batch are skipped (`ledger/commit.py`).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.config import JobConfig, jvm_properties, librdkafka_properties, outcome_hash, reveal
from streaming.ledger.batches import BatchRow
from streaming.ledger.ledger import Ledger
from streaming.ledger.storage import Place
from streaming.memory import memory_marks, this_machine
from streaming.pipeline.checkpoint import CORE_VERSION, Checkpoint
from streaming.pipeline.flow_notices import FlowNotices
from streaming.pipeline.gate import Gate, SourceLimits
from streaming.pipeline.imports import write_imports
from streaming.pipeline.kafka_topics import KafkaTopics
from streaming.pipeline.memory_of_shards import ShardsSeen
from streaming.pipeline.plan import streaming_plan
from streaming.pipeline.reports import BatchDone, read_reports
from streaming.pipeline.task_settings import task_settings
from streaming.pipeline.ticks import Ticks
from streaming.pipeline.upkeep import Upkeep, retention
from streaming.session import SessionConfig, available_cores, make_session, stop_session
from streaming.wire import WIRE_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from topology.declarations import Definitions

logger = logging.getLogger(__name__)

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
        self._ticks: Ticks | None = None
        self._notices: FlowNotices | None = None
        self.marks = memory_marks(config.flow, this_machine())
        self.shards = ShardsSeen(None)
        self._gate = Gate(self.marks, config.job.max_batch_rows)
        self.gate_state = self._gate.decide(0, 0)
        self._limits: SourceLimits | None = None
        self._limits_ready = threading.RLock()
        self._stopping = False
        self._upkeep: Upkeep | None = None
        self.committed = threading.Event()

    # -- start

    def start(
        self,
        spark: SparkSession | None = None,
        definitions: Mapping[str, Definitions] | None = None,
    ) -> None:
        """Prepare everything and start the query.

        Args:
            definitions: by vhost, to be imported before anything else; with the first start only.
            spark: a session to use; by default the job makes its own and stops it at the end.

        Raises:
            DlxError: something is not as it must be; in words.
        """
        self.checkpoint.lock()
        topics = KafkaTopics(self.config, dict(self._producer))
        topics.prepare()
        partitions = self.config.job.shuffle_partitions or available_cores()
        self._ledger = Ledger(self.tables, retention(self.config.tables))
        self.checkpoint.open(
            partitions,
            outcome_hash(self.config, core_version=CORE_VERSION, wire_version=WIRE_VERSION),
            tables_empty=self._ledger.is_empty(),
        )
        settings = task_settings(
            self.config, self.tables, self.checkpoint.job_file, topics, self._producer
        )
        self.checkpoint.save()
        if self.checkpoint.query_id() is None and definitions:
            write_imports(self.config, definitions, self._producer)
        if spark is None:
            spark = self._spark = make_session(self._session(), self._progress)
        self._learn_of_last_batch()
        for note in self.marks.notes:
            logger.log(note.level, note.text)
        self._ticks = Ticks(
            self.config, settings, dict(self._producer), topics.partitions, self.shards.deadlines
        )
        self._notices = FlowNotices(
            self.checkpoint.path,
            self.marks,
            self.config.outbound_topics(),
            topics.partitions,
            self._producer,
        )
        self._notices.gate_is(self.gate_state)
        self._start_upkeep()
        plan = streaming_plan(
            spark, self.config, settings, dict(self._jvm), self.gate_state.max_rows
        )
        self._query = (
            plan.writeStream.foreachBatch(self._commit)
            .outputMode("append")
            .option("checkpointLocation", str(self.checkpoint.path))
            .queryName("dlx")
            .trigger(processingTime=f"{self.config.job.trigger_ms} milliseconds")
            .start()
        )
        with self._limits_ready:
            self._limits = SourceLimits(spark, self._query)

    def _learn_of_last_batch(self) -> None:
        """What the last batch row says: what is resident, deadlines, the gate."""
        assert self._ledger is not None
        query_id = self.checkpoint.query_id()
        row = self._ledger.last_batch(query_id) if query_id else None
        detail = row.detail if row is not None else {}
        self.shards = ShardsSeen(detail)
        is_open = bool(detail.get("gate", {}).get("open", True))
        self._gate = Gate(self.marks, self.config.job.max_batch_rows, is_open=is_open)
        self.gate_state = self._gate.decide(self.shards.resident_bytes, self.shards.mean_bytes)

    def _start_upkeep(self) -> None:
        """Contents and maintenance, off the batch path."""
        self._upkeep = Upkeep(self.config, self.tables, self._ledger)
        self._upkeep.start()

    def _session(self) -> SessionConfig:
        job = self.config.job
        work = Path(job.log_dir)
        return SessionConfig(
            work_dir=work / "work",
            log_dir=work,
            master=job.master,
            driver_memory=job.driver_memory,
            shuffle_partitions=job.shuffle_partitions,
            properties=reveal(job.spark_properties, "job.spark_properties", os.environ),
        )

    # -- a batch

    def _commit(self, frame: DataFrame, batch_id: int) -> None:
        """Run the stages of a batch and commit what came of them."""
        started = time.perf_counter()
        rows = frame.collect()
        ran = time.perf_counter()
        files, reports = read_reports(rows)
        query_id = self.checkpoint.query_id()
        assert query_id is not None, "a batch without a query"
        offsets = self.checkpoint.offsets(batch_id)
        now_ms = offsets.now_ms
        self.shards.learn(reports)
        self.gate_state = self._gate.decide(self.shards.resident_bytes, self.shards.mean_bytes)
        detail: dict[str, Any] = {
            "offsets": offsets.ends,
            "configuration": self.checkpoint.job_file.outcome_hash,
            "core_version": CORE_VERSION,
            **self.shards.detail(),
            "gate": msgspec.to_builtins(self.gate_state),
        }
        assert self._ledger is not None
        committed = self._ledger.commit(files, BatchRow(query_id, batch_id, now_ms, detail))
        done = BatchDone(
            batch_id,
            now_ms,
            reports,
            sum(report.records for report in reports),
            sum(report.events for report in reports),
            {
                "stages": round(ran - started, 4),
                "commit": round(sum(committed.seconds.values()), 4),
            },
        )
        self._set_gate()
        if self._ticks is not None:
            self._ticks.batch_done(reports)
        if self._upkeep is not None:
            self._upkeep.batch_done(batch_id)
        if self._on_batch is not None:
            self._on_batch(done)
        self.committed.set()

    def _set_gate(self) -> None:
        """Tell the publishes source how much the next batch may read, and publishers whether."""
        if self._notices is not None:
            self._notices.gate_is(self.gate_state)
        with self._limits_ready:
            if self._limits is not None and not self._stopping:
                self._limits.set_rows(self.config.topics_of("publishes"), self.gate_state.max_rows)

    # -- running and stopping

    @property
    def query(self) -> StreamingQuery:
        """The running query."""
        assert self._query is not None, "the job was not started"
        return self._query

    def wait(self, seconds: float) -> bool:
        """Wait; True if the query has ended.

        Raises:
            StreamingQueryException: it ended by a failure.
        """
        ended = self.query.awaitTermination(seconds)  # type: ignore[arg-type] # takes fractions
        return bool(ended)

    def stop(self) -> None:
        """Stop the query between batches, give everything back; harmless twice."""
        if self._ticks is not None:
            self._ticks.stop()
        if self._notices is not None:
            self._notices.stop()
            self._notices = None
        query, self._query = self._query, None
        if query is not None:
            self._end_batches(query)
            query.stop()
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

    def _end_batches(self, query: StreamingQuery, seconds: float = STOP_TIMEOUT_S) -> None:
        """Close all sources and wait until the batch that runs has ended."""
        deadline = time.monotonic() + seconds
        with self._limits_ready:
            self._stopping = True
            if self._limits is not None and query.isActive:
                self._limits.close_all()
        while time.monotonic() < deadline and query.isActive:
            status = query.status
            if not status["isTriggerActive"] and not status["isDataAvailable"]:
                return
            time.sleep(0.02)
