"""A job of `dlx bench chaos`: a process that can be killed with everything it started."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from streaming.bench.chaos_log import EMPTY_LOG, LOG
from streaming.config import JobConfig, show_config
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.pipeline.checkpoint.spark_logs import SparkLogs

WAIT_S = 1_800


class ChaosJob:
    """A job as a process: `dlx run` on a configuration of its own."""

    def __init__(self, root: Path, servers: str, name: str, batch_rows: int) -> None:
        self.root = root / name
        self.root.mkdir(parents=True)
        self.tables = self.root / "tables"
        self.config = JobConfig(
            job=JobSettings(
                checkpoint_location=str(self.root / "checkpoints"),
                tables_location=str(self.tables),
                log_dir=str(self.root / "logs"),
                shuffle_partitions=2,
                clock="event",
                max_batch_rows=batch_rows,
                driver_memory="1g",
            ),
            kafka=KafkaSettings(bootstrap_servers=(servers,)),
            inputs=(
                InputSettings(topic=EMPTY_LOG, source="publishes"),
                InputSettings(topic=LOG, source="commands"),
            ),
            outbound=OutboundSettings(topic=f"{LOG}-{name}.{{vhost}}.{{user}}"),
        )
        self.file = self.root / "dlx.toml"
        self.file.write_text(show_config(self.config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with (self.root / "run.log").open("ab") as log:
            command = [sys.executable, "-m", "streaming.cli", "run", "--config", str(self.file)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - ours

    def kill(self) -> None:
        """Kill it and everything it started, at once."""
        assert self.process is not None
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def stop(self) -> None:
        """End it as an operator would."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=180)

    def read_to(self) -> int:
        """How far the last finished batch has read the log."""
        ends = SparkLogs(self.root / "checkpoints").next_positions()
        return ends.get(LOG, {}).get("0", 0)

    def wait(self, end: int, until: Callable[[], bool] | None = None) -> bool:
        """Wait until the log is read to its end; False if `until` came first."""
        deadline = time.monotonic() + WAIT_S
        while self.read_to() < end:
            assert self.process is not None
            if self.process.poll() is not None:
                log = (self.root / "run.log").read_text(errors="replace")
                raise RuntimeError(f"the job ended by itself:\n{log[-4000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the log was not read within {WAIT_S} s")
            if until is not None and until():
                return False
            time.sleep(0.05)
        return True
