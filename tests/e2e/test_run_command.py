"""`dlx run` runs, stops cleanly, and explains its refusals."""

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from streaming.broker.config import CORE_VERSION
from streaming.cli.main import main
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.observe.failures import PY4J_LOG
from streaming.storage.location import Location
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.pipeline import Pipeline


class RunCommand:
    """`dlx run` on a configuration file."""

    def __init__(self, root: Path, servers: str) -> None:
        self.pipeline = Pipeline(root, servers, job={"shuffle_partitions": 2})
        self.run = DlxRun(root, self.pipeline.config)
        self.text = self.run.file.read_text()

    def start(self, reads: int) -> None:
        """Start the job, publish one message, and wait until it has read a number of messages."""
        before = len(self.run.batches())

        def read(what: str) -> int:
            return sum(line[what] for line in self.run.batches()[before:])

        self.run.start()
        records = read("records")
        assert records  # it reports a running job after its first batch
        self.pipeline.command(op="declare_queue", queue={"name": "work"})
        self.pipeline.producer.flush()
        self.run.until(lambda: read("records") > records)
        self.pipeline.publish(b"a message", routing_key=b"work")
        self.pipeline.producer.flush()
        self.run.until(lambda: read("publishes") >= reads)

    def stop(self) -> None:
        """Press Ctrl-C, as a terminal sends it to the process group; the job must end well."""
        self.run.stop(signal.SIGINT, group=True)
        assert self.last_words().endswith("stopped; run the same command to resume")

    def last_words(self) -> str:
        """The last line of its log."""
        return str(self.run.log.read_text().splitlines()[-1])

    def refusal(self, capsys: Any, monkeypatch: Any, *changes: tuple[str, str]) -> str:
        """The output of a refused start, with some texts of the file replaced."""
        text = self.text
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        self.run.file.write_text(text)
        monkeypatch.setattr(sys, "argv", ["dlx", "run", "--config", str(self.run.file)])
        with pytest.raises(SystemExit) as exit_:
            main()
        self.run.file.write_text(self.text)
        assert exit_.value.code == 2
        said: str = capsys.readouterr().err
        assert "Traceback" not in said
        return said


def test_dlx_run_refuses_a_mismatch_and_resumes(tmp_path, embedded_kafka, capsys, monkeypatch):
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

    try:
        job.start(1)
        assert "another job uses" in refusal()
        job.stop()
    finally:
        job.run.kill()

    partitions = ("shuffle_partitions = 2", "shuffle_partitions = 3")
    assert "has 2 partitions; this start has 3" in refusal(partitions)
    other = (str(checkpoint), str(tmp_path / "elsewhere"))
    assert "which is not the query of the checkpoint" in refusal(other)
    foreign = tmp_path / "foreign"
    with Ledger(Location(str(foreign))) as ledger:
        ledger.commit([], BatchRow("another-query", 0, 0, BatchDetail()))
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
    assert "has an unfinished batch that was begun with another configuration" in unfinished
    assert 'job.compat: was "4.0", now "3.10"' in unfinished

    try:
        job.start(2)  # the batch whose end was lost is repeated
        process = job.run.process
        [jvm] = [one for one in psutil.Process(process.pid).children() if one.name() == "java"]
        jvm.kill()
        assert process.wait() == 2
        assert "Traceback" not in job.run.log.read_text()
        assert "Traceback" in (Path(job.pipeline.config.job.log_dir) / PY4J_LOG).read_text()
    finally:
        job.run.kill()
    assert job.last_words().startswith("Spark's JVM ended unexpectedly (killed by signal 9)")

    assert "it is an older copy" in refusal((str(checkpoint), str(tmp_path / "copy")))
    said = refusal((f'"{job.pipeline.tables}"', f'"{tmp_path / "backup"}"'))
    assert "the table was restored to an older state" in said
    kinds = [kind for (kind,) in job.pipeline.query("events", "kind", "seq") if kind != "batch"]
    assert kinds == ["topology", "enqueued", "enqueued"]
