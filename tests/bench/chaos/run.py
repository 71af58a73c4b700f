"""`dlx bench chaos`: a job that is killed again and again leaves what an undisturbed job leaves.

Two jobs read one log, each with its own checkpoint, tables and outbound topics. The first runs
undisturbed. The second is killed at random instants (SIGKILL for the JVM and all Python processes
at once) and restarted. With `clock = event` and one partition, the outcome does not depend on where
batches begin. So the tables must be equal, except for `batch_id` and file names, and so must the
outbound records without repeats.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from streaming.config import JobConfig, show_config
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from tests.bench.chaos.compare import COMPARED, compare_outbound, compare_tables, rows_of
from tests.bench.chaos.log import EMPTY_LOG, LOG, produce_log
from tests.bench.processes import Process

WAIT_S: Final = 1_800


class ChaosResult(NamedTuple):
    """The outcome of a run.

    Attributes:
        messages: the messages of the log.
        kills: how often the second job was killed; fewer than `wanted` if it read the log first.
        wanted: how often it should have been killed.
        rows: table -> rows.
        differences: the tables and topics that are not equal.
        redriven: letters that redrives moved.
    """

    messages: int
    kills: int
    wanted: int
    rows: dict[str, int]
    differences: list[str]
    redriven: int = 0

    @property
    def findings(self) -> list[str]:
        """The reasons why the run failed; empty if it passed."""
        found = [f"differs: {difference}" for difference in self.differences]
        if self.kills < self.wanted:
            found.append(
                f"the log ended after {self.kills} of {self.wanted} kills: use more --messages"
            )
        return found


class ChaosJob:
    """A job with its own configuration, as a process."""

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
        file = self.root / "dlx.toml"
        file.write_text(show_config(self.config))
        self.process = Process(self.root, "run", "streaming.cli", "run", "--config", str(file))

    @property
    def outbound_topic(self) -> str:
        """The topic to which the job writes confirms and answers."""
        return self.config.outbound_topics()[("/", "guest")]

    def position(self) -> int:
        """Return the offset up to which the last finished batch has read the log."""
        ends = SparkLogs(self.root / "checkpoints").next_positions()
        return ends.get(LOG, {}).get("0", 0)

    def wait(self, end: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the log is read; False if `until` became true first.

        Raises:
            RuntimeError: the job ended, or the log was not read in time.
        """
        deadline_s = time.monotonic() + WAIT_S
        while self.position() < end:
            self.process.check()
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the log was not read within {WAIT_S} s")
            if until():
                return False
            time.sleep(0.05)
        return True


def run_chaos(
    root: Path,
    servers: str,
    messages: int,
    kills: int,
    *,
    seed: int = 1,
    report: Callable[[str], None] = print,
) -> ChaosResult:
    """Run both jobs and compare what they leave.

    Args:
        root: an empty folder.
        servers: a Kafka without topics of these names.
        kills: how often to kill the second job.
        report: called with lines about the progress.
    """
    end = produce_log(servers, messages)
    batch_rows = max(200, end // (2 * kills + 4))
    report(f"{end} records; batches of {batch_rows}")
    calm = ChaosJob(root, servers, "calm", batch_rows * 3)
    calm.process.start()
    calm.wait(end)
    calm.process.stop()
    report("undisturbed run done")
    killed = ChaosJob(root, servers, "killed", batch_rows)
    killed.process.start()
    done = _kill_often(killed, end, kills, random.Random(seed), report)
    killed.wait(end)
    killed.process.stop()
    differences = compare_tables(calm.tables, killed.tables)
    differences += compare_outbound(servers, calm.outbound_topic, killed.outbound_topic)
    rows = {table: len(rows_of(calm.tables, table)) for table in COMPARED}
    redriven = sum("'kind': 'redriven'" in row for row in rows_of(calm.tables, "events"))
    return ChaosResult(messages, done, kills, rows, differences, redriven)


def _kill_often(
    job: ChaosJob, end: int, kills: int, chances: random.Random, report: Callable[[str], None]
) -> int:
    """Kill and restart a job until it has read the log; return how often."""
    for kill in range(kills):
        start_s = time.monotonic()
        needs_progress = kill % 3 != 0  # every third kill may come before a batch is finished
        goal = job.position() + 1 if needs_progress else 0
        delay_s = chances.uniform(0.0, 2.5) + (0 if needs_progress else 8)

        def due(goal: int = goal, start_s: float = start_s, delay_s: float = delay_s) -> bool:
            return job.position() >= goal and time.monotonic() - start_s > delay_s

        if job.wait(end, due):
            return kill
        job.process.kill()
        report(f"kill {kill + 1} of {kills} at offset {job.position()} of {end}")
        job.process.start()
    return kills
