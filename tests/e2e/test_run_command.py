"""`dlx run` as an operator meets it: it runs, ends in good order, and refuses in words."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from streaming.cli.main import main
from streaming.config import show_config
from streaming.ledger.batches import BatchRow
from streaming.ledger.ledger import Ledger
from streaming.ledger.storage import Place
from streaming.pipeline.checkpoint import CORE_VERSION
from tests.fixtures.pipeline import WAIT_S, Pipeline


class RunCommand:
    """`dlx run` on a configuration file."""

    def __init__(self, root: Path, servers: str) -> None:
        self.pipeline = Pipeline(root, servers)
        self.file = root / "dlx.toml"
        self.text = show_config(self.pipeline.config)
        self.file.write_text(self.text)
        self.log = root / "run.log"

    def start(self, reads: int) -> "subprocess.Popen[bytes]":
        """Start it, publish one message, and wait until it has read so many."""
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "streaming.cli", "run", "--config", str(self.file)]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            self.wait(process, lambda: "running: tables in" in self.log.read_text())
            self.pipeline.command(op="declare_queue", queue={"name": "work"})
            self.pipeline.producer.flush()
            self.wait(process, lambda: bool(self.lines()))
            self.pipeline.publish(b"a message", routing_key=b"work")
            self.pipeline.producer.flush()
            self.wait(process, lambda: self.read() >= reads)
        except BaseException:
            process.kill()
            raise
        return process

    def read(self) -> int:
        return sum(line["publishes"] for line in self.lines())

    def wait(self, process: "subprocess.Popen[bytes]", condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def lines(self) -> list[dict[str, Any]]:
        """The batches, as the log has them."""
        found = re.findall(r'(\{"event": "batch".*\})$', self.log.read_text(), re.MULTILINE)
        return [json.loads(line) for line in found]

    def stop(self, process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
        os.killpg(process.pid, number)  # as a terminal and `timeout` do
        assert process.wait(WAIT_S) == 0, self.log.read_text()
        assert "stopped; start again with the same command to go on" in self.log.read_text()

    def refusal(self, capsys: Any, monkeypatch: Any, *changes: tuple[str, str]) -> str:
        """What it says when it does not start, with texts of the file replaced."""
        text = self.text
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        self.file.write_text(text)
        monkeypatch.setattr(sys, "argv", ["dlx", "run", "--config", str(self.file)])
        with pytest.raises(SystemExit) as exit_:
            main()
        self.file.write_text(self.text)
        assert exit_.value.code == 2
        said: str = capsys.readouterr().err
        assert "Traceback" not in said
        return said


def test_it_runs_refuses_what_does_not_fit_and_goes_on(
    tmp_path, embedded_kafka, capsys, monkeypatch
):
    job = RunCommand(tmp_path, embedded_kafka.bootstrap_servers)
    checkpoint = Path(job.pipeline.config.job.checkpoint_location)

    def refusal(*changes: tuple[str, str]) -> str:
        return job.refusal(capsys, monkeypatch, *changes)

    impatient = ("connect_timeout_ms = 5000", "connect_timeout_ms = 500")
    said = refusal((job.pipeline.servers, "localhost:1"), impatient)
    assert "kafka.bootstrap_servers: no answer from localhost:1 within 0.5 s" in said
    assert "did you mean 'trigger_ms'" in refusal(("trigger_ms", "triger_ms"))
    queue = {"name": "q", "arguments": {"x-max-length": -1}}
    (tmp_path / "bad.json").write_text(json.dumps({"queues": [queue]}))
    bad = f'definitions = "{tmp_path / "bad.json"}"\nlanes = 1'
    assert "x-max-length" in refusal(("lanes = 1", bad))

    process = job.start(1)
    try:
        assert "another job uses" in refusal()
        job.stop(process, signal.SIGTERM)
    finally:
        process.kill()

    partitions = ("shuffle_partitions = 2", "shuffle_partitions = 3")
    assert "was made with 2, and the state is divided by it" in refusal(partitions)
    other = (str(checkpoint), str(tmp_path / "elsewhere"))
    assert "is not the checkpoint they were written with" in refusal(other)
    foreign = tmp_path / "foreign"
    with Ledger(Place(str(foreign))) as ledger:
        ledger.commit([], BatchRow("another-query", 0, 0, {}))
    said = refusal((f'"{job.pipeline.tables}"', f'"{foreign}"'))
    assert "have batches of Spark query another-query" in said
    shutil.copytree(checkpoint, tmp_path / "copy")
    shutil.copytree(job.pipeline.tables, tmp_path / "backup")
    kept = (checkpoint / "dlx.json").read_text()
    (checkpoint / "dlx.json").write_text(
        kept.replace(f'"core_version": {CORE_VERSION}', '"core_version": 99')
    )
    assert "was written by a newer version of dlx: format 1, core 99" in refusal()
    (checkpoint / "dlx.json").write_text(kept)
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    shutil.move(last, tmp_path / "commit")
    unfinished = refusal(('compat = "4.0"', 'compat = "3.10"'))
    assert "has a batch that was begun with another configuration" in unfinished
    assert 'job.compat: was "4.0", now "3.10"' in unfinished

    process = job.start(2)  # the batch whose end was lost runs again
    try:
        job.stop(process, signal.SIGINT)
    finally:
        process.kill()

    assert "it is an older copy" in refusal((str(checkpoint), str(tmp_path / "copy")))
    said = refusal((f'"{job.pipeline.tables}"', f'"{tmp_path / "backup"}"'))
    assert "the table was put back to an older state" in said
    process = job.start(1)
    [jvm] = [one for one in psutil.Process(process.pid).children() if one.name() == "java"]
    jvm.kill()
    assert process.wait(WAIT_S) == 2
    words = job.log.read_text().splitlines()[-1]
    assert words.startswith("Spark's JVM has ended by itself (killed by signal 9)")
    kinds = [kind for (kind,) in job.pipeline.query("events", "kind", "seq") if kind != "batch"]
    assert kinds == ["topology", "enqueued", "enqueued", "enqueued"]
