"""The job: prepare topics, checkpoint and tables; start the query; stop it between two batches.

`micro_batch` has what happens in a batch, `query` the plan that Spark runs.
"""

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from streaming.config import (
    JobConfig,
    jvm_properties,
    librdkafka_properties,
    outcome_hash,
    outcome_settings,
)
from streaming.ledger.batch_detail import BatchDetail, BatchRow, GateState
from streaming.ledger.write.fence import Fence
from streaming.pipeline.checkpoint.checkpoint import CORE_VERSION, Checkpoint
from streaming.pipeline.checkpoint.folders import (
    checkpoint_place,
    lease_ms,
    open_ledger,
    tables_place,
)
from streaming.pipeline.checkpoint.manifest import FILE as MANIFEST_FILE
from streaming.pipeline.checkpoint.table_match import read_table_batches
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.clock.trigger import SPARK_TRIGGER, Ticks, Trigger
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import memory_marks, this_machine
from streaming.pipeline.housekeeping import Housekeeping, retention
from streaming.pipeline.lane_answers import LaneAnswers
from streaming.pipeline.micro_batch import MicroBatch
from streaming.pipeline.observe.batch_warnings import BrokerWarnings, FaultWarnings
from streaming.pipeline.observe.failures import SparkLostError, failure_text, wait_for_end
from streaming.pipeline.observe.retries import Retries
from streaming.pipeline.query import build_query
from streaming.pipeline.redrive_verdicts import RedriveVerdicts
from streaming.pipeline.replay_constants import replay_constants
from streaming.pipeline.reports import BatchDone, ShardStats
from streaming.pipeline.task import task_settings
from streaming.pipeline.topics.accepted_loss import check_gaps
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.pipeline.topics.definitions_import import write_imports
from streaming.pipeline.topics.offset_gaps import GapWatch
from streaming.pipeline.topics.other_jobs import refuse_other_job
from streaming.pipeline.traffic import TrafficTotals
from streaming.protocol.addressing import JobMark
from streaming.protocol.record_headers import WIRE_VERSION
from streaming.queries.duckdb_tables import Tables
from streaming.spark.executor_check import ExecutorChanges, facts_of_driver
from streaming.spark.executor_start import ExecutorStart
from streaming.spark.session import (
    available_cores,
    make_session,
    session_config,
    spark_url,
    stop_session,
)
from streaming.spark.settings import LogFormat
from topology.declarations import Definitions
from topology.errors import DlxError

logger = logging.getLogger("dlx")

STOP_TIMEOUT_S = 120
"""How long to wait for the running batch when the job stops."""


class Job:
    """A job made from its configuration.

    Args:
        on_batch: called after each committed batch, on Spark's thread.
        progress: shows downloads.
        log_format: the form of Spark's logs in the log folder.

    Attributes:
        shards: the latest figures of each shard.
        committed: set once a batch is committed.
        last_batch: the last batch of the run before; None: there was none.
    """

    def __init__(
        self,
        config: JobConfig,
        on_batch: Callable[[BatchDone], None] | None = None,
        progress: Console | None = None,
        log_format: LogFormat = "text",
    ) -> None:
        self.config = config
        self._log_format = log_format
        self._on_batch = on_batch
        self._progress = progress
        self._producer = librdkafka_properties(config.kafka, os.environ, by_content=True)
        self._jvm = jvm_properties(config.kafka, os.environ)
        self.tables = tables_place(config, os.environ)
        self.checkpoint = Checkpoint(checkpoint_place(config, os.environ), lease_ms(config))
        Tables.memory_bytes = config.tables.query_memory_bytes
        self.marks = memory_marks(config.flow, config.job.driver_memory, this_machine())
        self.shards = ShardStats(BatchDetail())
        self.committed = threading.Event()
        self.last_batch: BatchRow | None = None
        self._own_spark: SparkSession | None = None
        self._executors: ExecutorChanges | None = None
        self._query: StreamingQuery | None = None
        self._kept = ExitStack()  # what outlives a failed batch: the lock and the session
        self._closing = ExitStack()
        self._retries = Retries()
        self._start_again: Callable[[], None]
        # Set by `start`:
        self._flow: FlowControl
        self._ticks: Ticks
        self._watch: GapWatch

    def start(
        self,
        spark: SparkSession | None = None,
        definitions: Mapping[str, Definitions] | None = None,
        *,
        accept_loss: bool = False,
        creates_mapped: bool = False,
    ) -> None:
        """Prepare everything and start the query. Call `stop` afterwards, even after a failure.

        Args:
            spark: the session to use; by default the job makes its own and stops it at the end.
            definitions: by vhost; imported before the first message, and never again.
            accept_loss: continue after records that Kafka lost, with a quarantine row per range.
            creates_mapped: create mapped topics that are missing; for a Kafka of one's own.

        Raises:
            DlxError: the configuration, Kafka, the checkpoint or the tables cannot be used.
        """
        self.checkpoint.lock.acquire()
        self._kept.callback(self.checkpoint.lock.release)
        self._start_again = partial(
            self._begin,
            spark,
            definitions,
            accept_loss=accept_loss,
            creates_mapped=creates_mapped,
        )
        self._begin(spark, definitions, accept_loss=accept_loss, creates_mapped=creates_mapped)

    def _begin(
        self,
        spark: SparkSession | None,
        definitions: Mapping[str, Definitions] | None,
        *,
        accept_loss: bool,
        creates_mapped: bool,
    ) -> None:
        """Start, or start again after a batch that failed; see `start`."""
        config, checkpoint, closing = self.config, self.checkpoint, self._closing
        topics = KafkaTopics(config, dict(self._producer), creates_mapped=creates_mapped)
        mark = JobMark(
            checkpoint.job_id, str(self.tables.url), str(checkpoint.path), platform.node()
        )
        refuse_other_job(config, mark, self._producer, topics.known_topics())
        ledger = open_ledger(self.tables, retention(config.tables))
        closing.callback(ledger.close)
        if checkpoint.lock.epoch is not None:
            ledger.raise_fence(Fence(checkpoint.lock.epoch, checkpoint.lock.check))
        query_id = checkpoint.logs.query_id()
        checkpoint.open(
            config.job.shuffle_partitions or available_cores(),
            outcome_hash(config, core_version=CORE_VERSION, wire_version=WIRE_VERSION),
            outcome_settings(config),
            read_table_batches(ledger, query_id),
            replay_constants(),
        )
        topics.prepare()
        last = self.last_batch = ledger.last_batch(query_id) if query_id else None
        detail = checkpoint.manifest.last_detail(last)
        self.shards = ShardStats(detail)
        clock = JobClock(
            checkpoint, 0 if last is None else last.now_ms, is_wall=config.job.clock == "wall"
        )
        flow = self._flow = FlowControl(config, self.marks, detail, self.shards)
        checkpoint.manifest.refuse_missing_shards(config, self.shards)
        loss = check_gaps(checkpoint, topics, ledger, accept_loss=accept_loss)
        settings = task_settings(
            config,
            self.tables,
            {
                each.topic: checkpoint.manifest.topic_number(
                    topics.identities[each.topic], each.topic
                )
                for each in config.inputs
            },
            checkpoint.manifest.shard_key,
            self._producer,
            topics.record_bytes,
            checkpoint.manifest.outbound_from,
        )
        checkpoint.save()
        self._watch = GapWatch(config, topics, checkpoint)
        closing.callback(self._watch.stop)
        is_importing = bool(definitions) and checkpoint.logs.last_planned() is None
        if is_importing:
            write_imports(config, definitions or {}, self._producer)
        spark = spark or self._own_spark
        if spark is None:
            spark = make_session(
                session_config(config, os.environ, self._log_format), self._progress
            )
            self._own_spark = spark
            self._kept.callback(stop_session, spark)
        driver = facts_of_driver(spark)
        executors = None
        if driver is not None:
            cold = self._executors is None
            file = spark_url(str(checkpoint.path / MANIFEST_FILE))
            executors = ExecutorStart(spark, driver, file if cold else None)
        settings = msgspec.structs.replace(settings, driver=driver)
        housekeeping = Housekeeping(config, ledger, checkpoint, dict(self._producer))
        housekeeping.start()
        closing.callback(housekeeping.stop)
        trigger = Trigger(config.job.trigger_ms)
        trigger.set_polling_delay(spark)
        closing.callback(self._end_query)
        flow.announce(checkpoint.path, mark, topics.partitions, self._producer)
        closing.callback(flow.stop)
        self._ticks = Ticks(
            config,
            settings,
            dict(self._producer),
            topics.partitions,
            self.shards.deadlines,
            clock.now_ms,
        )
        closing.callback(self._ticks.stop)
        closing.callback(trigger.stop)
        faults = FaultWarnings()
        closing.callback(faults.log_rest)
        batch = MicroBatch(
            checkpoint=checkpoint,
            ledger=ledger,
            clock=clock,
            trigger=trigger,
            watch=self._watch,
            loss=loss,
            stats=self.shards,
            traffic=TrafficTotals(detail.traffic, None if last is None else last.batch_id),
            flow=flow,
            ticks=self._ticks,
            lane_answers=LaneAnswers(settings.outbound),
            verdicts=RedriveVerdicts(config, settings, dict(self._producer), detail.redrives),
            housekeeping=housekeeping,
            warnings=BrokerWarnings(),
            faults=faults,
            on_batch=self._batch_done,
        )
        commands = topics.waiting(config.topics_of("commands"), checkpoint.logs.next_positions())
        first_rows = flow.first_rows(spark, importing=is_importing, commands=commands)
        first_commands = flow.first_commands(spark)
        has_gaps = bool(loss.gaps)
        query = build_query(spark, config, settings, dict(self._jvm), first_rows, first_commands)
        if executors is not None:
            for executor in executors.executors():
                logger.info("%s", executor.words())
            self._executors = ExecutorChanges(spark)
        self._query = (
            query.writeStream.foreachBatch(batch.run)
            .outputMode("append")
            .option("checkpointLocation", spark_url(str(checkpoint.path)))
            .queryName("dlx")
            .trigger(processingTime=SPARK_TRIGGER)
            .start()
        )
        flow.attach(spark, self._query)
        if has_gaps:
            self.wake()  # the quarantine rows of the gaps need a batch

    def _batch_done(self, done: BatchDone) -> None:
        if self._on_batch is not None:
            self._on_batch(done)
        self.committed.set()
        self._retries.succeeded()
        if self._executors is not None:
            self._executors.log()

    @property
    def gate_state(self) -> GateState:
        """The state of flow control's gate."""
        return self._flow.state

    @property
    def query(self) -> StreamingQuery:
        """The running query."""
        assert self._query is not None, "the job is not running"
        return self._query

    def is_batch_running(self) -> bool:
        """Ask Spark whether a batch runs; raises its errors if it does not answer."""
        if self._query is None:  # between two attempts
            return False
        return bool(self.query.status["isTriggerActive"])

    def wake(self) -> None:
        """Let a batch run now, with `clock = wall`; with `event`, only records make batches."""
        self._ticks.wake()

    def wait(self, timeout_s: float) -> bool:
        """Wait, and return whether the query has ended; see `wait_for_end` for the failures.

        A batch that fails because of Kafka, the storage or a lost executor is tried again.
        """
        self.checkpoint.lock.check()
        if self._retries.due_s is not None:
            self._try_again(timeout_s)
            return False
        try:
            return wait_for_end(self.query, timeout_s, self._watch, self._own_spark)
        except SparkLostError:
            self._query = None
            raise
        except (StreamingQueryException, DlxError) as error:
            self.checkpoint.lock.check()  # a lost lease is the cause, whatever failed first
            if not self._retries.failed(failure_text(error)):
                raise
            self._end_attempt()
            return False

    def _try_again(self, timeout_s: float) -> None:
        """Wait for the next attempt, at most `timeout_s`; start it if it is due."""
        left_s = self._retries.left_s()
        if left_s > 0:
            time.sleep(min(left_s, timeout_s))
            return
        self._retries.begun()
        try:
            self._start_again()
        except Exception as error:  # each library has errors of its own for a lost connection
            if not self._retries.failed(failure_text(error)):
                raise
            self._end_attempt()
        else:
            self.wake()

    def _end_attempt(self) -> None:
        """Stop what belongs to a failed attempt; the session and the lock stay."""
        closing, self._closing = self._closing, ExitStack()
        closing.close()

    def stop(self) -> None:
        """Stop the query between two batches and release everything; harmless if repeated."""
        self._closing.close()
        self._kept.close()

    def _end_query(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            self._watch.give_up()
            self._flow.end_batches(query, STOP_TIMEOUT_S)
            query.stop()
