"""dlx run: the continuous job."""

import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def run(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="The job's dlx.toml.", metavar="FILE")
    ] = Path("dlx.toml"),
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show a live view instead of log lines.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Go on behind records that Kafka deleted before they were read; each range gets a "
            "row in the table quarantine.",
        ),
    ] = False,
) -> int:
    """Run the job until it is stopped: Kafka in, Delta tables and Kafka out.

    SIGTERM and Ctrl-C let the running batch finish. Started again, the job goes on where it was.
    """
    import os

    from rich.console import Console

    from streaming.config import load_config
    from streaming.config.definitions_files import check_secrets, load_vhost_definitions
    from streaming.pipeline.job import Job
    from streaming.pipeline.observe.batch_log import batch_line
    from streaming.pipeline.observe.live_view import LiveView
    from streaming.pipeline.reports import BatchDone

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logger = logging.getLogger("dlx")
    settings = load_config(config)
    check_secrets(settings, os.environ)
    definitions = load_vhost_definitions(
        settings, lambda words: logger.warning("left out: %s", words)
    )
    stopping = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        logger.info("%s: finishing the running batch", signal.Signals(number).name)
        stopping.set()

    view = LiveView() if watch else None

    def batch_done(done: BatchDone) -> None:
        if view is not None:
            view.show(done, job.shards, job.gate_state)
        else:
            line = batch_line(done, job.shards, job.gate_state, settings.job.clock)
            logger.info("%s", line)

    job = Job(settings, batch_done, Console(stderr=True))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        job.start(definitions=definitions, accept_loss=accept_loss)
        job.wake()  # the first batch takes seconds, with all that is loaded for it
        by_records = settings.job.clock == "event"  # there the first record makes the first batch
        told = False
        while not stopping.wait(0.2):
            if job.wait(0.01):
                return EXIT_FINDINGS
            if not told and (by_records or job.committed.is_set()):
                told = True
                logger.info(
                    "running: tables in %s, checkpoint in %s",
                    settings.job.tables_location,
                    job.checkpoint.path,
                )
    except Exception as error:
        if type(error).__name__ != "StreamingQueryException":
            raise
        logger.error("the stream has failed: %s", first_lines(str(error)))  # noqa: TRY400 - in words
        return EXIT_FINDINGS
    finally:
        if view is not None:
            view.close()
        job.stop()
    logger.info("stopped; start again with the same command to go on")
    return EXIT_OK


def first_lines(text: str, lines: int = 40) -> str:
    """The beginning of a long text."""
    return "\n".join(text.splitlines()[:lines])
