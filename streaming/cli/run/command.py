"""`dlx run`: runs the continuous job."""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import OwnConfigFile, find_config
from streaming.cli.run.kafka import broker_for
from streaming.storage.port import StoreError
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.embedded.kafka.broker import EmbeddedKafka
    from streaming.metrics.redrive_spans import RedriveSpans
    from streaming.pipeline.job import Job

MAX_ERROR_LINES = 40


class LogFormat(StrEnum):
    """The form of the log's lines."""

    text = "text"
    json = "json"


def run(
    config: OwnConfigFile = None,
    *,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Show the queues in a live view below the log, instead of batches."
        ),
    ] = False,
    with_kafka: Annotated[
        bool,
        typer.Option(
            "--with-kafka",
            help="Also run a Kafka broker, at the configuration's address, with its data in the "
            "folder kafka beside the configuration. It stops with the job. "
            "Mapped topics that are missing are created in it.",
        ),
    ] = False,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", help="One JSON object per line, or text."),
    ] = LogFormat.text,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Skip records that Kafka deleted before they were read; each range gets a row in "
            "the table quarantine.",
        ),
    ] = False,
) -> int:
    """Run the job until it is stopped.

    The job reads Kafka and writes Delta tables and Kafka. SIGTERM and Ctrl-C finish the current
    batch first. The next start resumes where this one stopped. A start that is refused leaves
    nothing behind.

    Exit status: 0 when stopped, 1 if the job failed, 2 if it could not start.
    """
    if watch and log_format == LogFormat.json:
        raise typer.BadParameter(
            "draws a table, which is not JSON; leave out one of --watch and --log-format json",
            param_hint="--watch",
        )
    if log_format == LogFormat.text:  # without a configuration, it fails at once
        config = find_config(config, or_demo=False)
    from streaming.pipeline.observe.job_log import JobLog

    log = JobLog(log_format.value, hides_batches=watch)
    file = find_config(config, or_demo=False)
    from streaming.config import load_config
    from streaming.config.types import is_url
    from streaming.pipeline.checkpoint.folders import NewFolders

    settings = load_config(file)
    places = (settings.job.checkpoint_location, settings.job.tables_location)
    folders = [settings.job.log_dir, *(place for place in places if not is_url(place))]
    broker = broker_for(settings, file) if with_kafka else None
    if broker is not None:
        folders.append(str(broker.directory))
    new_folders = NewFolders(map(Path, folders))
    started = threading.Event()
    try:
        log.keep_in(Path(settings.job.log_dir))
        with _console(settings, file):
            return _run_job(
                settings, broker, started, log_format, watch=watch, accept_loss=accept_loss
            )
    except (DlxError, StoreError):
        if not started.is_set():
            new_folders.remove()
        raise


@contextmanager
def _console(settings: "JobConfig", file: Path) -> Iterator[None]:
    """Run the console beside the job, if it is configured."""
    if settings.console.listen is None:
        yield
        return
    from streaming.console.beside_job import ConsoleProcess

    console = ConsoleProcess(settings.console, file.absolute())
    try:
        yield
    finally:
        console.stop()


def _run_job(
    settings: "JobConfig",
    broker: "EmbeddedKafka | None",
    started: threading.Event,
    log_format: LogFormat,
    *,
    watch: bool,
    accept_loss: bool,
) -> int:
    """Run the job until a signal, and set `started` once it has not been refused."""
    import os

    from rich.console import Console

    from streaming.config.definitions_files import check_secrets, load_vhost_definitions
    from streaming.metrics.service import Metrics
    from streaming.pipeline.job import Job
    from streaming.pipeline.observe.failures import code_of_failure, reason_of_failure
    from streaming.pipeline.observe.job_log import batch_figures, log_batch
    from streaming.pipeline.observe.live_view import LiveView
    from streaming.pipeline.reports import BatchDone
    from streaming.waiting import Flag

    logger = logging.getLogger("dlx")
    check_secrets(settings, os.environ)
    definitions = load_vhost_definitions(settings, lambda text: logger.warning("skipped: %s", text))
    stopping = Flag()

    def stop(number: int, _frame: FrameType | None) -> None:
        logger.info("%s: finishing the current batch", signal.Signals(number).name)
        stopping.set()

    view: LiveView | None = None
    listen = settings.metrics.listen
    is_watched = listen is not None or settings.alerts.webhook is not None
    metrics = Metrics(settings, listen) if is_watched else None

    def batch_done(done: BatchDone) -> None:
        if metrics is not None:
            metrics.batch_done(done, job)
        if spans is not None:
            spans.batch_done(done)
        log_batch(batch_figures(done, job.shards, job.gate_state, settings.job.clock))
        if view is not None:
            view.show(done, job.shards, job.gate_state)

    is_text = log_format == LogFormat.text
    job = Job(settings, batch_done, Console(stderr=True) if is_text else None, log_format.value)
    spans = _redrive_spans(job)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        if watch:
            view = LiveView(job.tables)
        if broker is not None:
            broker.start()
            logger.info(
                "Kafka listens on %s, data in %s", broker.bootstrap_servers, broker.directory
            )
        began_s = time.monotonic()
        logger.info("starting Spark's JVM, then topics and tables; seconds, on a busy machine more")
        job.start(
            definitions=definitions, accept_loss=accept_loss, creates_mapped=broker is not None
        )
        started.set()
        if metrics is not None:
            metrics.started(job)
            if listen is not None:
                logger.info("metrics: http://%s/metrics", listen)
        job.wake()  # the first batch loads much and takes seconds
        logger.info(
            "started after %.0f s; the first batch loads Spark's classes, starts Python workers "
            "and creates the state, which takes longer than any later one",
            time.monotonic() - began_s,
        )
        by_records = settings.job.clock == "event"  # the first batch starts with the first record
        announced = False
        while not stopping.wait(0.2):
            if job.wait(0.01):
                return EXIT_FINDINGS
            if broker is not None and not broker.is_running:
                text = "Kafka ended by itself; see %s (dlx doctor explain embedded-program)"
                logger.error(text, broker.log_file)
                return EXIT_FINDINGS
            if not announced and (by_records or job.committed.is_set()):
                announced = True
                logger.info(
                    "running: tables in %s, checkpoint in %s",
                    settings.job.tables_location,
                    job.checkpoint.path,
                )
    except Exception as error:
        if type(error).__name__ != "StreamingQueryException":
            raise
        text = "\n".join(str(error).splitlines()[:MAX_ERROR_LINES])
        code, reason = code_of_failure(str(error)), reason_of_failure(str(error))
        if metrics is not None:
            metrics.failed(code)
        if reason is not None:  # which may stand behind the lines that are shown
            text = f"{reason}\n{text}"
        logger.error("the job failed (dlx doctor explain %s): %s", code, text)  # noqa: TRY400 - no traceback
        return EXIT_FINDINGS
    finally:
        if metrics is not None:
            metrics.health.stopping()
        job.stop()
        if metrics is not None:
            metrics.stop()
        if spans is not None:
            spans.stop()
        if view is not None:
            view.close()
        if broker is not None:
            broker.stop()
    logger.info("stopped; run the same command to resume")
    return EXIT_OK


def _redrive_spans(job: "Job") -> "RedriveSpans | None":
    """Start the spans of redrives if OpenTelemetry's variables ask for them."""
    import os

    from streaming.client.errors import ClientError
    from streaming.client.tracing import is_wanted, start_tracing

    if not is_wanted(os.environ):
        return None
    try:
        start_tracing("dlx-job")
    except ClientError as error:  # a variable for all programs of a machine must not stop the job
        logging.getLogger("dlx").warning("redrives have no spans: %s", error)
        return None
    from streaming.metrics.redrive_spans import RedriveSpans

    return RedriveSpans(job.tables)
