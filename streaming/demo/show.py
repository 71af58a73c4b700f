"""The demo, top to bottom: a real Kafka, the job, its traffic; then quiet, and the report.

    DIR/kafka, DIR/checkpoints, DIR/tables/<name>, DIR/logs, DIR/dlx.toml

    Kafka and Spark start --> first batch --> traffic for N seconds --> traffic closes
        --> the input is quiet and committed --> the job stops --> report --> Kafka stops

The same directory continues where it was.
"""

import logging
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from streaming.config import JobConfig, JobSettings, KafkaSettings, TablesSettings, show_config
from streaming.demo.addresses import DemoError, addresses_of
from streaming.demo.job_observer import Following
from streaming.demo.live import Moment, View, say
from streaming.demo.report import (
    balance_lines,
    histories,
    history_lines,
    place_lines,
    query_lines,
    summary_lines,
)
from streaming.demo.story import WORKED
from streaming.demo.traffic import Traffic
from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.job import Job
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables

CHECKOUT: Final = Path(__file__).resolve().parents[2]

SHUFFLE_PARTITIONS: Final = 2
"""Not the number of cores: the directory may be continued on another machine."""

LOOK_EVERY_S: Final = 0.5
QUIET_S: Final = 1.5
SOON_MS: Final = 5_000
"""Timers due within this are waited for: the last retries."""

FINISH_TIMEOUT_S: Final = 30.0
SETTLE_TIMEOUT_S: Final = 120.0


def job_config(directory: Path, bootstrap_servers: str) -> JobConfig:
    """The configuration of the demo's job."""
    return JobConfig(
        job=JobSettings(
            checkpoint_location=str(directory / "checkpoints"),
            tables_location=str(directory / "tables"),
            log_dir=str(directory / "logs"),
            shuffle_partitions=SHUFFLE_PARTITIONS,
            driver_memory="1g",
        ),
        kafka=KafkaSettings(bootstrap_servers=(bootstrap_servers,)),
        tables=TablesSettings(contents_lag_ms=1_000),
    )


class Show:
    """One performance.

    Args:
        directory: of everything; absolute.
        seconds: of traffic, from the first committed batch.
        keep: after the report, leave Kafka and the job running until interrupted.
        console: for what is shown.
        progress: for bars while jars are downloaded.
    """

    def __init__(
        self, directory: Path, seconds: float, *, keep: bool, console: Console, progress: Console
    ) -> None:
        self._directory = directory
        self._seconds = seconds
        self._keep = keep
        self._console = console
        self._progress = progress
        self._view = View(console)
        self._phase = "starting"

    def run(self) -> bool:
        """Play; whether the balance is closed.

        Raises:
            DlxError: something could not be started, or failed; in words.
            KeyboardInterrupt: interrupted; nothing is left running.
        """
        with ExitStack() as stack, ExitStack() as stream:
            kafka = self._start_kafka()
            stack.callback(kafka.stop)
            config = job_config(self._directory, kafka.bootstrap_servers)
            (self._directory / "dlx.toml").write_text(show_config(config), "utf-8")
            addresses = addresses_of(config, os.environ)
            following = Following(addresses)
            stack.callback(following.close)
            with_tables = Tables(config.job.tables_location)
            following.know(with_tables)
            with_tables.close()
            job = Job(config, following.batch_done)
            stream.callback(job.stop)
            say(self._console, "starting Spark ...", "dim")
            job.start()
            traffic = Traffic(addresses)
            stream.callback(traffic.stop)
            stream.callback(self._view.close)
            traffic.start()
            self._play(job, traffic, following)
            self._finish_work(job, traffic, following)
            traffic.stop()
            self._fail_if(traffic)
            self._phase = "waiting for the last messages"
            self._settle(job, traffic, following)
            self._view.close()
            if not self._keep:
                stream.close()
            closed = self._report()
            if self._keep:
                self._stay(kafka, job)
        return closed

    def _start_kafka(self) -> EmbeddedKafka:
        say(self._console, f"everything is kept in {self._directory}")
        self._log_to_file()
        resolve_jars("kafka", progress=self._progress)
        resolve_jars("spark", progress=self._progress)
        kafka = EmbeddedKafka(
            self._directory / "kafka", log_dir=self._directory / "logs", progress=self._progress
        )
        say(self._console, "starting Kafka ...", "dim")
        kafka.start()
        say(self._console, f"Kafka listens on {kafka.bootstrap_servers}")
        return kafka

    def _log_to_file(self) -> None:
        """What the job and its libraries log is for a file: the terminal shows the story.

        Python's root logger too: py4j tells it of every call that Ctrl-C interrupts.
        """
        logs = self._directory / "logs"
        try:
            logs.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(logs / "dlx.log", encoding="utf-8")
        except OSError as failure:
            raise DemoError(
                f"--dir: {failure.strerror} ({failure.filename}). Give write access there, or name "
                "another directory."
            ) from failure
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("streaming")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logging.getLogger().addHandler(handler)

    def _play(self, job: Job, traffic: Traffic, following: Following) -> None:
        """Traffic, until its time from the first committed batch is over."""
        while following.first_batch_s is None or (
            time.monotonic() - following.first_batch_s < self._seconds
        ):
            following.arrived.wait(LOOK_EVERY_S)
            self._fail_if(traffic)
            self._look(job, following)
            if traffic.opened.is_set():
                self._phase = "the shop is open"
            self._show(job, traffic, following)

    def _finish_work(self, job: Job, traffic: Traffic, following: Following) -> None:
        """Close the shop, and let the consumers work off what waits for them; not for ever."""
        traffic.close_shop()
        self._phase = "the shop is closed"
        patience_ends_s = time.monotonic() + FINISH_TIMEOUT_S
        while time.monotonic() < patience_ends_s:
            following.arrived.wait(LOOK_EVERY_S)
            self._fail_if(traffic)
            self._look(job, following)
            self._show(job, traffic, following)
            depths = following.depths.by_queue()
            if following.lag_records(job) == 0 and not depths.keys() & set(WORKED):
                return

    def _settle(self, job: Job, traffic: Traffic, following: Following) -> None:
        """Wait until all of Kafka's input is committed and no timer is due soon.

        Raises:
            DemoError: the job does not catch up.
        """
        patience_ends_s = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < patience_ends_s:
            following.arrived.wait(LOOK_EVERY_S)
            self._look(job, following)
            self._show(job, traffic, following)
            quiet_s = time.monotonic() - following.last_batch_s
            due_ms = following.next_deadline_ms - time.time_ns() // 1_000_000
            if quiet_s >= QUIET_S and due_ms > SOON_MS and following.lag_records(job) == 0:
                return
        raise DemoError(
            f"the job did not catch up within {SETTLE_TIMEOUT_S:.0f} s: "
            f"{following.lag_records(job)} records wait in Kafka. Start the demo again with the "
            f"same directory and it goes on; Spark's log is in {self._directory / 'logs'}."
        )

    def _look(self, job: Job, following: Following) -> None:
        """Take in what was committed, and see that the job lives."""
        if job.wait(0.01):
            raise DemoError(f"the job ended by itself; see {self._directory / 'logs'}")
        following.take_in(job)

    def _fail_if(self, traffic: Traffic) -> None:
        if isinstance(traffic.failure, DemoError):
            raise traffic.failure
        if traffic.failure is not None:
            raise DemoError(f"the traffic has failed: {traffic.failure!r}") from traffic.failure

    def _show(self, job: Job, traffic: Traffic, following: Following) -> None:
        now_s = time.monotonic()
        first_s = following.first_batch_s
        moment = Moment(
            elapsed_s=None if first_s is None else now_s - first_s,
            total_s=self._seconds,
            phase=self._phase,
            batches=following.batches,
            batch_s=following.batch_s,
            lag_records=following.lag_records(job),
            traffic=traffic.counts.now(),
            depths=following.depths.by_queue(),
            deaths=following.deaths.by_reason,
            died_in=following.deaths.by_queue,
            gate_open=job.gate_state.open,
        )
        self._view.show(moment, now_s)

    def _report(self) -> bool:
        tables = Tables(str(self._directory / "tables"))
        try:
            rows = histories(tables)
            self._section("Dead letters, by queue and reason", summary_lines(tables))
            self._section("Some of them, with their history (x-death)", history_lines(rows))
            drawn = balance(tables)
            self._section("Balance", balance_lines(drawn))
        finally:
            tables.close()
        self._section("Where everything is", place_lines(self._directory))
        self._section("Query the dead letters", query_lines(self._directory, CHECKOUT, rows))
        return drawn.unexplained == 0

    def _section(self, title: str, lines: Iterable[str]) -> None:
        say(self._console, f"\n{title}", "bold")
        for line in lines:
            say(self._console, f"  {line}")

    def _stay(self, kafka: EmbeddedKafka, job: Job) -> None:
        """Keep Kafka and the job running until interrupted; that is then a good end."""
        say(
            self._console,
            f"\nKafka ({kafka.bootstrap_servers}) and the job go on; Ctrl-C ends them.",
            "bold",
        )
        try:
            while not job.wait(0.5):
                pass
        except KeyboardInterrupt:
            return
        raise DemoError(f"the job ended by itself; see {self._directory / 'logs'}")
