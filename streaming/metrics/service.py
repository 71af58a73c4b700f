"""The metrics of one job: figures, health, and threads that ask Kafka, Spark and the tables."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb
from confluent_kafka.admin import AdminClient

from streaming.broker.overview import QueueOverview
from streaming.config import JobConfig, librdkafka_properties
from streaming.config.console import ConsoleSettings
from streaming.config.metrics import split_address
from streaming.config.tables import period_ms
from streaming.config.types import is_url
from streaming.exposition.families import Queue
from streaming.exposition.server import ExpositionServer
from streaming.job_locations import checkpoint_place
from streaming.kafka_offsets import ends_of, quiet_admin
from streaming.ledger.batch_detail import by_partition
from streaming.metrics.alerting.alerter import Alerter
from streaming.metrics.alerting.notices import KEPT_FILE, Kept
from streaming.metrics.alerting.webhook import Webhook, read_secret
from streaming.metrics.figures import JobFigures, Lag, TableSize, Unhandled
from streaming.metrics.health import Health
from streaming.metrics.server import job_server
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.waiting import waiting_queues
from streaming.queries.duckdb_tables import Tables
from streaming.queries.job_totals import LedgerTotals, earliest_event_s, totals_through
from streaming.queries.queues import list_queues
from streaming.queries.redrives.outcomes import letters_by_outcome
from streaming.queries.table_info import describe
from streaming.queries.vhosts.clients import consumer_counts
from streaming.storage.json_file import DamagedFileError, read_json_file, write_json_file

MAX_SHARE: Final = 0.1
"""The most time that questions to the tables may take."""

KAFKA_TIMEOUT_S: Final = 10.0
DUCKDB_MEMORY: Final = "256MB"
PROBE_S: Final = 5.0
STOP_S: Final = 5.0
INTERRUPT_S: Final = 0.1
_TABLES: Final = "metrics-tables"

logger = logging.getLogger(__name__)


class Metrics:
    """Serves the metrics of a job, and tells the webhook of its alerts.

    Args:
        listen: HOST:PORT; None: the webhook alone.

    Raises:
        ListenError: the address cannot be used.
        SecretError: the secret of the webhook cannot be used.
    """

    def __init__(self, config: JobConfig, listen: str | None) -> None:
        settings = config.metrics
        self._config = config
        self.figures = JobFigures(config.kafka.client_id)
        self.figures.disk_path = _existing(
            config.job.log_dir
            if is_url(config.job.checkpoint_location)
            else config.job.checkpoint_location
        )
        self.figures.retention_s = {
            kept: (period_ms(period) or 0) / 1000
            for kept, period in config.tables.retention.items()
        }
        self.figures.quiet = settings.quiet_queues
        self.figures.quiet_of = config.alerts.quiet
        self.figures.console_url = _console_url(config.console)
        self.health = Health(settings.stalled_after_ms / 1000)
        self._place = checkpoint_place(config, os.environ) / KEPT_FILE
        self._kept = self._read_kept()
        self.figures.failure = self._kept.failure
        self._alerter = self._alerts()
        self.server: ExpositionServer | None = None
        if listen is not None:
            host, port = split_address(listen)
            self.server = job_server(
                host, port, self.figures, self.health, settings.max_series, settings.hosts
            )
            self.server.start()
        self._job: Job | None = None
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._asked: Tables | None = None
        self._balance_s = 0.0
        self._logged: set[str] = set()

    def _alerts(self) -> Alerter | None:
        alerts = self._config.alerts
        if alerts.webhook is None:
            return None
        webhook = Webhook(alerts.webhook, read_secret(alerts.webhook_secret))
        most = self._config.metrics.max_series
        return Alerter(self.figures, webhook, self._kept, self._save, most)

    def _read_kept(self) -> Kept:
        try:
            return read_json_file(self._place, Kept, "Delete it.") or Kept()
        except (DamagedFileError, OSError) as error:
            logger.warning("alerts: what the last run told is not known: %s", error)
            return Kept()

    def _save(self, kept: Kept) -> None:
        write_json_file(self._place, kept)

    def failed(self, code: str) -> None:
        """Note what ends the job, for its alert and for the next start; never raises."""
        self.figures.failure = self._kept.failure = code
        with self._guarded("alerts"):
            self._save(self._kept)

    def started(self, job: Job) -> None:
        """Begin to ask about a job that runs."""
        self._job = job
        self.figures.memory_limit_bytes = job.marks.process_high_bytes or job.marks.high_bytes
        self.health.started(needs_batch=self._config.job.clock == "wall")
        works: tuple[tuple[str, Callable[[], None]], ...] = (
            ("metrics-kafka", self._follow_kafka),
            (_TABLES, self._follow_tables),
            ("metrics-spark", self._probe_spark),
        )
        for name, work in works:
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        if self._alerter is not None:
            self._alerter.start()

    def batch_done(self, done: BatchDone, job: Job) -> None:
        """Take over a batch; never raises."""
        with self._guarded("batch"):
            last = job.last_batch
            self.figures.is_seeded |= last is None
            is_new = last is None or done.batch_id > last.batch_id
            self.figures.batch(done, job.shards, job.gate_state, is_new=is_new)
            self.health.batch_ended()

    def stop(self) -> None:
        """Stop the threads and release the address."""
        self.health.stopping()
        self._stopping.set()
        if self._alerter is not None and self._job is not None:
            self._alerter.stop()
        if self.server is not None:
            self.server.stop()
        for thread in self._threads:
            if thread.name == _TABLES:
                self._end_question(thread)

    def _end_question(self, thread: threading.Thread) -> None:
        """Wait for what asks the tables: DuckDB complains of what is open when a process ends."""
        deadline_s = time.monotonic() + STOP_S
        while thread.is_alive() and time.monotonic() < deadline_s:
            asked = self._asked
            if asked is not None:
                with suppress(duckdb.Error):  # it has just been closed
                    asked.connection.interrupt()  # what it does now; it may do more
            thread.join(INTERRUPT_S)

    # -- Kafka

    def _follow_kafka(self) -> None:
        admin = quiet_admin(librdkafka_properties(self._config.kafka, os.environ))
        while not self._stopping.wait(self._config.metrics.interval_ms / 1000):
            with self._guarded("kafka"):
                self._measure_lag(admin)
            if self.figures.offsets:
                self.figures.is_kafka_reachable = "kafka" not in self._logged

    def _measure_lag(self, admin: AdminClient) -> None:
        figures = self.figures
        positions = by_partition(figures.offsets)
        if not positions:
            return
        ends = ends_of(admin, positions, KAFKA_TIMEOUT_S)
        lags = {one: Lag(offset, ends[one]) for one, offset in positions.items()}
        figures.lags = lags
        self.health.waiting(records=self._has_work(lags))

    def _has_work(self, lags: Mapping[tuple[str, int], Lag]) -> bool:
        """Whether records wait that flow control does not hold back."""
        gate = self.figures.gate
        publishes = set(self._config.topics_of("publishes"))
        return any(
            lag.end > lag.offset and (gate is None or gate.max_rows > 0 or topic not in publishes)
            for (topic, _partition), lag in lags.items()
        )

    # -- Spark

    def _probe_spark(self) -> None:
        while not self._stopping.wait(PROBE_S):
            job = self._job
            with self._guarded("spark"):
                if job is not None:
                    self.health.answered(is_running=job.is_batch_running())

    # -- the tables

    def _follow_tables(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            began_s = time.monotonic()
            if self.figures.last_batch is not None:
                with self._guarded("tables"):
                    self._ask_tables()
                with self._guarded("balance"):
                    self._draw_balance()
            if self._alerter is None and self._kept.failure and not self.figures.failure:
                self._kept.failure = None
                with self._guarded("alerts"):
                    self._save(self._kept)
            took_s = time.monotonic() - began_s
            is_early = self.figures.last_batch is None
            interval_s = 0.5 if is_early else self._config.metrics.interval_ms / 1000
            pause_s = max(interval_s, took_s / MAX_SHARE - took_s)

    def _ask_tables(self) -> None:
        figures = self.figures
        with self._tables() as tables:
            figures.tables = {
                one.name: TableSize(one.files, one.bytes, one.rows) for one in describe(tables)
            }
            if not figures.is_seeded:
                figures.seed(self._totals_before(tables), _queues_at_rest(tables))
            if tables.has("queue_contents"):
                figures.unhandled = unhandled_letters(tables)
            if figures.count("redrive"):
                figures.redrives = letters_by_outcome(tables)
            figures.earliest_s = earliest_event_s(tables)

    def _totals_before(self, tables: Tables) -> LedgerTotals:
        assert self._job is not None
        assert self._job.last_batch is not None, "a new checkpoint has no earlier batches"
        return totals_through(tables, self._job.last_batch.query_id, self._job.last_batch.batch_id)

    def _draw_balance(self) -> None:
        interval_s = self._config.metrics.balance_interval_ms / 1000
        now_s = time.monotonic()
        if not interval_s or (self._balance_s and now_s - self._balance_s < interval_s):
            return
        self._balance_s = now_s
        with self._tables() as tables:
            self.figures.unexplained = balance(tables).unexplained
        self.figures.balance_s = time.time()

    @contextmanager
    def _tables(self) -> Iterator[Tables]:
        assert self._job is not None, "the job has started"
        place = self._job.tables
        tables = Tables(place.url, place.options, threads=1)
        self._asked = tables
        try:
            tables.connection.execute(f"SET memory_limit = '{DUCKDB_MEMORY}'")
            yield tables
        finally:
            self._asked = None
            tables.close()

    @contextmanager
    def _guarded(self, source: str) -> Iterator[None]:
        """Log a failure, once until it succeeds again: metrics must not disturb the job."""
        try:
            yield
        except Exception as error:
            self.figures.failures[source] += 1
            if source not in self._logged and not self._stopping.is_set():
                self._logged.add(source)
                logger.warning(
                    "metrics: %s could not be asked: %s",
                    source,
                    error,
                    exc_info=logger.isEnabledFor(logging.DEBUG),
                )
        else:
            self._logged.discard(source)


def _console_url(settings: ConsoleSettings) -> str | None:
    """Return the address of the console beside this job, if it has one."""
    if settings.listen is None:
        return None
    return settings.public_url or f"http://{settings.listen}"


def _existing(path: str) -> str:
    """Return the nearest folder that exists."""
    folder = Path(path).resolve()
    while not folder.is_dir():
        folder = folder.parent
    return str(folder)


def unhandled_letters(tables: Tables) -> dict[Queue, Unhandled]:
    """The dead letters that wait, by queue, as the console counts them."""
    return {
        (one.vhost, one.queue): Unhandled(one.count, one.oldest_s) for one in waiting_queues(tables)
    }


def _queues_at_rest(tables: Tables) -> Iterator[tuple[str, QueueOverview]]:
    """Yield vhost and figures of each queue, as the tables have them."""
    consumers = consumer_counts(tables)
    for one in list_queues(tables):
        yield (
            one.vhost,
            QueueOverview(
                name=one.queue,
                type=one.type or "classic",
                ready=one.ready,
                ready_bytes=one.ready_bytes,
                unacked=one.unacked,
                unacked_bytes=one.bytes - one.ready_bytes,
                held=0,
                held_bytes=0,
                consumers=consumers.get((one.vhost, one.queue), 0),
                waiting=0,
                paused=False,
            ),
        )
