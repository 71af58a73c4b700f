"""One attempt of a job: its topics, checkpoint and tables are opened, its query runs and ends.

A batch that fails for a reason outside the job ends its attempt. The next one reads everything
again, and continues where the last committed batch ended.
"""

import logging
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.broker.config import CORE_VERSION
from streaming.config import JobConfig, outcome_hash, outcome_settings
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.write.job_fence import Fence
from streaming.ledger.write.ledger import Ledger
from streaming.machine_cores import Cores
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.folders import open_ledger
from streaming.pipeline.checkpoint.manifest import FILE as MANIFEST_FILE
from streaming.pipeline.checkpoint.table_match import read_table_batches
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.clock.trigger import SPARK_TRIGGER, Ticks, Trigger
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.log_bounds import LogBounds
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.housekeeping import Housekeeping, retention
from streaming.pipeline.lane_answers import LaneAnswers
from streaming.pipeline.micro_batch import MicroBatch
from streaming.pipeline.observe.batch_warnings import BrokerWarnings, FaultWarnings
from streaming.pipeline.query import build_query
from streaming.pipeline.redrive_verdicts import RedriveVerdicts
from streaming.pipeline.replay_constants import replay_constants
from streaming.pipeline.reports import BatchDone, ShardStats
from streaming.pipeline.task import TaskSettings, task_settings
from streaming.pipeline.topics.accepted_loss import AcceptedLoss, check_gaps
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.pipeline.topics.definitions_import import write_imports
from streaming.pipeline.topics.offset_gaps import GapWatch
from streaming.pipeline.topics.other_epochs import first_other_epochs
from streaming.pipeline.topics.other_jobs import refuse_other_job
from streaming.pipeline.traffic import TrafficTotals
from streaming.protocol.addressing import JobMark
from streaming.protocol.record_headers import WIRE_VERSION
from streaming.record_sender import BatchSender, RecordSender
from streaming.spark.executor_check import ExecutorChanges, facts_of_driver
from streaming.spark.executor_start import ExecutorStart, start_python
from streaming.spark.session import available_cores, shares_cores, spark_url
from streaming.storage.location import Location
from topology.declarations import Definitions

logger = logging.getLogger("dlx")

STOP_TIMEOUT_S = 120
"""How long to wait for the running batch when an attempt ends."""


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What every attempt of a job is told.

    Attributes:
        definitions: by vhost; imported before the first message, and never again.
        accept_loss: continue after records that Kafka lost, with a quarantine row per range.
        creates_mapped: create mapped topics that are missing; for a Kafka of one's own.
        producer, jvm: how to reach Kafka, for librdkafka and for Spark; they hold secrets.
        on_batch: called after each committed batch, on Spark's thread.
    """

    config: JobConfig
    tables: Location
    checkpoint: Checkpoint
    marks: MemoryMarks
    producer: dict[str, str] = field(repr=False)
    jvm: dict[str, str] = field(repr=False)
    definitions: Mapping[str, Definitions]
    accept_loss: bool
    creates_mapped: bool
    on_batch: Callable[[BatchDone], None]


class Attempt:
    """One attempt: `open`, then `run`, and `end` afterwards, even after a failure.

    Attributes:
        shards: the latest figures of each shard.
        last_batch: the last batch before this attempt; None: there was none.
        query: the running query; None before it runs and after it has ended.
    """

    last_batch: BatchRow | None
    shards: ShardStats
    flow: FlowControl
    ticks: Ticks
    watch: GapWatch
    _topics: KafkaTopics
    _ledger: Ledger
    _detail: BatchDetail
    _loss: AcceptedLoss
    _settings: TaskSettings

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._producer = orders.producer
        checkpoint = orders.checkpoint
        self._mark = JobMark(
            *(checkpoint.job_id, str(orders.tables.url), str(checkpoint.path)), platform.node()
        )
        self._closing = ExitStack()
        self._executors: ExecutorChanges | None = None
        self.query: StreamingQuery | None = None

    def open(self) -> None:
        """Prepare topics, checkpoint and tables.

        Raises:
            DlxError: Kafka, the checkpoint or the tables cannot be used.
        """
        config, checkpoint = self._orders.config, self._orders.checkpoint
        topics = self._topics = KafkaTopics(
            config, dict(self._producer), creates_mapped=self._orders.creates_mapped
        )
        refuse_other_job(config, self._mark, self._producer, topics.known_topics())
        ledger = self._ledger = self._open_ledger()
        self._match_checkpoint()
        self._refuse_other_epochs()
        self._loss = check_gaps(checkpoint, topics, ledger, accept_loss=self._orders.accept_loss)
        self._settings = self._task_settings()
        checkpoint.save()
        self.watch = GapWatch(config, topics, checkpoint)
        self._closing.callback(self.watch.stop)

    def run(self, session: Callable[[], SparkSession], *, is_cold: bool) -> None:
        """Start the query.

        Args:
            session: returns the session, and makes it first if there is none.
            is_cold: whether no executor has been asked for its versions yet.

        Raises:
            DlxError: Kafka or the executors cannot be used.
        """
        config, checkpoint, topics = self._orders.config, self._orders.checkpoint, self._topics
        is_importing = bool(self._orders.definitions) and checkpoint.logs.last_planned() is None
        if is_importing:
            write_imports(config, self._orders.definitions, self._producer)
        spark = session()
        driver = facts_of_driver(spark)
        settings = msgspec.structs.replace(self._settings, driver=driver)
        executors = None
        if driver is None:
            start_python(spark)
        else:
            file = spark_url(str(checkpoint.path / MANIFEST_FILE))
            executors = ExecutorStart(spark, driver, file if is_cold else None)
        batch = self._start_parts(spark, settings)
        commands = topics.waiting(config.topics_of("commands"), checkpoint.logs.next_positions())
        first_rows = self.flow.first_rows(spark, importing=is_importing, commands=commands)
        first_commands = self.flow.first_commands(spark)
        has_gaps = bool(self._loss.gaps)
        rows = build_query(
            spark, config, settings, dict(self._orders.jvm), first_rows, first_commands
        )
        if executors is not None:
            for executor in executors.executors():
                logger.info("%s", executor.words())
            self._executors = ExecutorChanges(spark)
        self.query = (
            rows.writeStream.foreachBatch(batch.run)
            .outputMode("append")
            .option("checkpointLocation", spark_url(str(checkpoint.path)))
            .queryName("dlx")
            .trigger(processingTime=SPARK_TRIGGER)
            .start()
        )
        self.flow.attach(spark, self.query)
        if has_gaps:
            self.ticks.wake()  # the quarantine rows of the gaps need a batch

    @property
    def checks_executors(self) -> bool:
        """Whether executors were asked for their versions."""
        return self._executors is not None

    def end(self) -> None:
        """Stop the query between two batches, and what belongs to it; harmless if repeated."""
        self._closing.close()

    def _open_ledger(self) -> Ledger:
        ledger = open_ledger(self._orders.tables, retention(self._orders.config.tables))
        self._closing.callback(ledger.close)
        lock = self._orders.checkpoint.lock
        if lock.epoch is not None:
            ledger.raise_fence(Fence(lock.epoch, lock.check))
        return ledger

    def _match_checkpoint(self) -> None:
        """Match checkpoint and tables, and restore what the last batch has left."""
        config, checkpoint = self._orders.config, self._orders.checkpoint
        query_id = checkpoint.logs.query_id()
        checkpoint.open(
            config.job.shuffle_partitions or available_cores(),
            outcome_hash(config, core_version=CORE_VERSION, wire_version=WIRE_VERSION),
            outcome_settings(config),
            read_table_batches(self._ledger, query_id),
            replay_constants(),
        )
        self._topics.prepare()
        self.last_batch = self._ledger.last_batch(query_id) if query_id else None
        self._detail = checkpoint.manifest.last_detail(self.last_batch)
        self.shards = ShardStats(self._detail)
        checkpoint.manifest.refuse_missing_shards(config, self.shards)
        keys = {  # of all vhosts, in the order in which new ones get theirs
            name: {checkpoint.manifest.shard_key(name, lane) for lane in range(vhost.lanes)}
            for name, vhost in config.vhosts.items()
        }
        sequenced = frozenset[int]().union(*(keys[name] for name in config.log_topics()))
        self.flow = FlowControl(config, self._orders.marks, self._detail, self.shards, sequenced)

    def _refuse_other_epochs(self) -> None:
        """Read no log beyond where it goes on on other terms.

        Raises:
            OtherTermsError: everything before that was read.
        """
        logs, config = self._orders.checkpoint.logs, self._orders.config
        if not config.log_topics() or config.amqp.leaders_topic not in self._topics.known_topics():
            return
        begins, ids = logs.next_positions(), self._topics.identities
        errors = first_other_epochs(config, self._producer, begins, ids)
        bounds = self.flow.bounds = LogBounds(errors, begins)
        error = bounds.reached()
        if error is not None and not logs.has_unfinished_batch():
            raise error

    def _task_settings(self) -> TaskSettings:
        config, manifest = self._orders.config, self._orders.checkpoint.manifest
        numbers = {
            topic: manifest.topic_number(self._topics.identities[topic], topic)
            for topic in config.read_topics()
        }
        return task_settings(
            config,
            self._orders.tables,
            numbers,
            manifest.shard_key,
            self._producer,
            self._topics.record_bytes,
            manifest.outbound_from,
        )

    def _start_parts(self, spark: SparkSession, settings: TaskSettings) -> MicroBatch:
        """Start what runs beside the query; return what runs in it."""
        config, checkpoint, last = self._orders.config, self._orders.checkpoint, self.last_batch
        partitions, closing = self._topics.partitions, self._closing
        clock = JobClock(
            checkpoint, 0 if last is None else last.now_ms, is_wall=config.job.clock == "wall"
        )
        housekeeping = Housekeeping(config, self._ledger, checkpoint, dict(self._producer))
        housekeeping.start()
        closing.callback(housekeeping.stop)
        trigger = Trigger(config.job.trigger_ms, Cores() if shares_cores(config) else None)
        trigger.set_polling_delay(spark)
        if config.job.shuffle_partitions:  # a session that others made may have another number
            spark.conf.set("spark.sql.shuffle.partitions", str(config.job.shuffle_partitions))
        closing.callback(self._end_query)
        begins = checkpoint.logs.next_positions()
        self.flow.announce(checkpoint.path, self._mark, partitions, self._producer, begins)
        closing.callback(self.flow.stop)
        self.ticks = Ticks(
            config,
            settings,
            RecordSender({**self._producer, "linger.ms": 0}),
            partitions,
            self.shards.deadlines,
            clock.now_ms,
        )
        closing.callback(self.ticks.stop)
        closing.callback(trigger.stop)
        faults = FaultWarnings()
        closing.callback(faults.log_rest)
        sums = self._detail.traffic
        return MicroBatch(
            checkpoint=checkpoint,
            ledger=self._ledger,
            clock=clock,
            trigger=trigger,
            watch=self.watch,
            loss=self._loss,
            stats=self.shards,
            traffic=TrafficTotals(sums, None if last is None else last.batch_id),
            flow=self.flow,
            ticks=self.ticks,
            lane_answers=LaneAnswers(
                settings.outbound, BatchSender({**settings.outbound.producer, "linger.ms": 0})
            ),
            verdicts=RedriveVerdicts(
                config,
                settings,
                BatchSender({**self._producer, "linger.ms": 0}),
                self._detail.redrives,
            ),
            housekeeping=housekeeping,
            warnings=BrokerWarnings(),
            faults=faults,
            on_batch=self._batch_done,
        )

    def _batch_done(self, done: BatchDone) -> None:
        self._orders.on_batch(done)
        if self._executors is not None:
            self._executors.log()

    def _end_query(self) -> None:
        query, self.query = self.query, None
        if query is not None:
            self.watch.give_up()
            self.flow.end_batches(query, STOP_TIMEOUT_S)
            query.stop()
