"""Who only waits is told that the job is gone, and that it is back: nothing else would say so.

The lease of the channel is an hour long, so that no renewal finds out.
"""

import itertools
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.cli.exit_codes import EXIT_NO_ANSWER, EXIT_NO_JOB
from streaming.client import Connection, NoJobError
from streaming.client.address import address_of
from tests.fixtures.dlx_process import DlxProcess
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S, wait_until

HOUR_S = 3_600
SILENT = "the job is silent although Kafka at "
HEARD = "the job answers again"
OF_KAFKA = "Kafka "
"""Begins what is said of Kafka itself, which may be slow to answer on a busy machine."""
REOPENED = "the broker had closed channel "
"""Begins what is said if that took longer than the lease of the channel."""


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Pipeline:
    return Pipeline(tmp_path, embedded_kafka.bootstrap_servers)


@pytest.fixture
def run(tmp_path: Path, pipeline: Pipeline) -> Iterator[DlxRun]:
    run = DlxRun(tmp_path, pipeline.config)
    run.start()
    yield run
    run.kill()


class Shell:
    """`dlx consume QUEUE`: the bodies it prints, and what it says of trouble."""

    def __init__(self, run: DlxRun, queue_name: str, root: Path) -> None:
        self.out, self.err = root / "consume.out", root / "consume.err"
        options = ["--config", str(run.file), "--timeout", str(WAIT_S)]
        self.process = DlxProcess("consume", queue_name, *options, out=self.out, err=self.err)

    def until(self, file: Path, *lines: str) -> None:
        """Wait until there are so many lines, and see how they begin.

        On a busy machine the job may be silent, and heard again, more often than it was killed.
        """

        def said() -> list[str]:
            found = file.read_text().splitlines()
            of_job = [line for line in found if not line.startswith((OF_KAFKA, REOPENED))]
            return [line for line, _again in itertools.groupby(of_job)]

        wait_until(lambda: len(said()) >= len(lines), file.read_text)
        found = said()
        for line, words in zip(found, lines, strict=False):
            assert line.startswith(words), found
        assert all(line.startswith((SILENT, HEARD)) for line in found[len(lines) :]), found


def until_heard(troubles: "queue.SimpleQueue[str]", words: str) -> None:
    """Wait until something is said that begins with these words."""
    while not troubles.get(timeout=WAIT_S).startswith(words):
        pass


def what_dlx_says(run: DlxRun, status: int, *arguments: str) -> str:
    """The one line of a command that fails with this status."""
    options = ["--config", str(run.file), "--timeout", "6"]
    ended = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *arguments, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    [line] = ended.stderr.splitlines()
    assert ended.returncode == status, line
    return line


@pytest.mark.long
def test_a_waiting_client_learns_that_the_job_was_killed_and_is_back(pipeline, run, tmp_path):
    troubles: queue.SimpleQueue[str] = queue.SimpleQueue()
    address = address_of(pipeline.config)
    with Connection(address, timeout_s=WAIT_S, on_outage=troubles.put) as connection:
        channel = connection.channel(lease_s=HOUR_S)
        for name in ("library", "shell"):
            channel.declare_queue(name)
        consumer = channel.consume("library")
        shell = Shell(run, "shell", tmp_path)
        try:
            connection.publisher().publish("", "shell", b"before").result(WAIT_S)
            shell.until(shell.out, "before")

            run.kill()
            until_heard(troubles, SILENT)
            assert connection.outage.startswith(SILENT)
            shell.until(shell.err, SILENT)
            words = what_dlx_says(run, EXIT_NO_JOB, "get", "library")
            assert words.startswith("no job has been heard since ")
            assert address.alive in words
            assert address.commands in words
            publish = ["publish", "once", "-k", "library"]
            assert address.publishes in what_dlx_says(run, EXIT_NO_ANSWER, *publish)
            assert "nothing was sent" in what_dlx_says(run, EXIT_NO_JOB, *publish, "--require-job")

            with pytest.raises(NoJobError, match="nothing was sent"):
                connection.require_job()

            run.start()
            until_heard(troubles, HEARD)
            assert connection.outage == ""
            connection.require_job()
            assert channel.queue_depth("library") == 0  # the job really answers
            delivered = [consumer.next(WAIT_S), consumer.next(0)]  # what was sent took effect
            assert [each and each.body for each in delivered] == [b"once", None]
            shell.until(shell.err, SILENT, HEARD)
        finally:
            shell.process.kill()
