"""The job: take the checkpoint, run attempts of the query, try again after failures, stop.

`attempt` has what an attempt prepares, `micro_batch` what happens in a batch, `query` the plan that
Spark runs.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from streaming.config import JobConfig, jvm_properties, librdkafka_properties
from streaming.job_locations import checkpoint_place, tables_place
from streaming.ledger.batch_detail import BatchRow, GateState
from streaming.machine_memory import this_machine
from streaming.made_vhosts import VhostWatch, with_made_vhosts
from streaming.pipeline.attempt import Attempt, Orders
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.folders import lease_ms
from streaming.pipeline.checkpoint.job_state import FailingFile
from streaming.pipeline.flow.memory import memory_marks
from streaming.pipeline.observe.failures import SparkLostError, failure_text, wait_for_end
from streaming.pipeline.observe.retries import Retries
from streaming.pipeline.reports import BatchDone, ShardStats
from streaming.queries.duckdb_tables import Tables
from streaming.spark.session import make_session, session_config, stop_session
from streaming.spark.settings import LogFormat
from topology.declarations import Definitions
from topology.errors import DlxError

logger = logging.getLogger("dlx")


class Job:
    """A job made from its configuration: its lock, its session, and attempts one after another.

    Args:
        on_batch: called after each committed batch, on Spark's thread.
        progress: shows downloads.
        log_format: the form of Spark's logs in the log folder.

    Attributes:
        config: with the vhosts that were made at run time, once the job has started.
        committed: set once a batch is committed.
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
        self.committed = threading.Event()
        self._given_spark: SparkSession | None = None
        self._own_spark: SparkSession | None = None
        self._is_cold = True  # no executor has been asked for its versions yet
        self._retries = Retries(FailingFile(self.checkpoint.path))
        self._vhosts = VhostWatch(self.checkpoint.path)
        self._orders: Orders
        self._attempt: Attempt | None = None

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
        self._given_spark = spark
        self.config = with_made_vhosts(self.config, os.environ)
        self._orders = Orders(
            config=self.config,
            tables=self.tables,
            checkpoint=self.checkpoint,
            marks=self.marks,
            producer=dict(self._producer),
            jvm=dict(self._jvm),
            definitions=definitions or {},
            accept_loss=accept_loss,
            creates_mapped=creates_mapped,
            on_batch=self._batch_done,
        )
        try:
            self._begin()
        except Exception as error:
            self._retries.ended(failure_text(error))
            raise

    def _begin(self) -> None:
        attempt = Attempt(self._orders)
        try:
            attempt.open()
        except BaseException:
            attempt.end()
            raise
        self._attempt = attempt  # its batches need it
        attempt.run(self._session, is_cold=self._is_cold)
        self._is_cold = self._is_cold and not attempt.checks_executors

    def _session(self) -> SparkSession:
        if self._given_spark is not None:
            return self._given_spark
        if self._own_spark is None:
            config = session_config(self.config, os.environ, self._log_format)
            self._own_spark = make_session(config, self._progress)
        return self._own_spark

    def _batch_done(self, done: BatchDone) -> None:
        if self._on_batch is not None:
            self._on_batch(done)
        self.committed.set()
        self._retries.succeeded()

    @property
    def shards(self) -> ShardStats:
        """The latest figures of each shard."""
        return self.attempt.shards

    @property
    def last_batch(self) -> BatchRow | None:
        """The last batch before the attempt that runs; None: there was none."""
        return self.attempt.last_batch

    @property
    def gate_state(self) -> GateState:
        """The state of flow control's gate."""
        return self.attempt.flow.state

    @property
    def attempt(self) -> Attempt:
        """The attempt that runs, or the last one that was opened."""
        assert self._attempt is not None, "the job has not been started"
        return self._attempt

    @property
    def query(self) -> StreamingQuery:
        """The running query."""
        query = self.attempt.query
        assert query is not None, "the job is not running"
        return query

    def is_batch_running(self) -> bool:
        """Ask Spark whether a batch runs; raises its errors if it does not answer."""
        if self.attempt.query is None:  # between two attempts
            return False
        return bool(self.query.status["isTriggerActive"])

    def wake(self) -> None:
        """Let a batch run now, with `clock = wall`; with `event`, only records make batches."""
        self.attempt.ticks.wake()

    def wait(self, timeout_s: float) -> bool:
        """Wait, and return whether the query has ended; see `wait_for_end` for the failures.

        A batch that fails because of Kafka, the storage or a lost executor is tried again.

        Raises:
            OtherTermsError: all was read that this version may read of a log.
        """
        self.checkpoint.lock.check()
        if self._retries.due_s is not None:
            self._try_again(timeout_s)
            return False
        self.attempt.flow.bounds.end()
        if self._takes_new_vhosts():
            return False
        try:
            return wait_for_end(self.query, timeout_s, self.attempt.watch, self._own_spark)
        except SparkLostError as error:
            self.attempt.query = None
            self._retries.ended(failure_text(error))
            raise
        except (StreamingQueryException, DlxError) as error:
            self.checkpoint.lock.check()  # a lost lease is the cause, whatever failed first
            if not self._retries.failed(failure_text(error)):
                raise
            self.attempt.end()
            return False

    def _takes_new_vhosts(self) -> bool:
        """Whether a front has made vhosts. Then the next attempt begins, which reads their logs."""
        found = self._vhosts.look(self.config)
        if found is self.config:
            return False
        new = ", ".join(found.vhosts.keys() - self.config.vhosts.keys())
        logger.info("a front has made %s: a new query reads the logs of all vhosts", new)
        self.config = found
        self._orders = replace(self._orders, config=found)
        self.attempt.end()
        self._retries.at_once()
        return True

    def _try_again(self, timeout_s: float) -> None:
        """Wait for the next attempt, at most `timeout_s`; start it if it is due."""
        left_s = self._retries.left_s()
        if left_s > 0:
            time.sleep(min(left_s, timeout_s))
            return
        self._retries.begun()
        try:
            self._begin()
        except Exception as error:  # each library has errors of its own for a lost connection
            if not self._retries.failed(failure_text(error)):
                raise
            self.attempt.end()
        else:
            self.wake()

    def stop(self) -> None:
        """Stop the query between two batches and release everything; harmless if repeated."""
        if self._attempt is not None:
            self._attempt.end()
        own, self._own_spark = self._own_spark, None
        try:
            if own is not None:
                stop_session(own)
        finally:
            self.checkpoint.lock.release()
