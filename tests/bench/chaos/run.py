"""`dlx bench chaos`: a job that is killed again and again leaves what an undisturbed job leaves.

Two jobs read one log, each with its own checkpoint, tables and outbound topics. The first runs
undisturbed. The second is killed at random instants (SIGKILL for the JVM and all Python processes
at once) and restarted. Both topics have several partitions. With `clock = event`, the outcome of a
vhost that is fed by one of them does not depend on where batches begin. So its tables must be
equal, except for `batch_id` and file names, and so must its outbound records without repeats.
Batches decide how the records of several partitions merge, so the vhost `merged` is compared as a
set: see `compare`.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from streaming.config import JobConfig, show_config
from streaming.config.inputs import InputSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.cluster import LocalCluster
from streaming.job_locations import checkpoint_place, tables_place
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.bench.chaos.compare import COMPARED, compare_outbound, compare_tables, rows_of
from tests.bench.chaos.log import LOG, MERGED, PUBLISHES, LogShape, produce_log
from tests.bench.output import say
from tests.bench.processes import Process
from tests.fixtures.settings import job_settings

WAIT_S: Final = 1_800
"""How long no batch may finish: on a busy machine, a job on a cluster takes minutes to start."""

LEASE_MS: Final = 40_000
"""Longer than the object store is ever away."""

CALM_ROWS: Final = 20_000
LEAST_ROWS: Final = 200
"""Records of a batch per partition: the first batch declares `merged` before its publishes."""

LOOK_S: Final = 0.05
LOOK_AT_STORE_S: Final = 0.5

DEFAULT_SHAPE: Final = LogShape()

Strike = Callable[["ChaosJob", int, random.Random], str]
"""Kills a part of a job and replaces it, given the number of earlier kills; returns its name."""


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

    def __init__(
        self,
        root: Path,
        servers: str,
        name: str,
        batch_rows: int,
        cluster: LocalCluster | None = None,
        shape: LogShape = DEFAULT_SHAPE,
    ) -> None:
        self.root = root / name
        self.root.mkdir(parents=True)
        job = job_settings(
            self.root,
            lease_ms=LEASE_MS,
            clock="event",
            max_batch_rows=batch_rows,
            driver_memory="1g",
        )
        config = JobConfig(
            job=job,
            kafka=KafkaSettings(bootstrap_servers=tuple(servers.split(","))),
            vhosts={
                MERGED: VhostSettings(lanes=shape.lanes),
                **{
                    vhost: VhostSettings(lanes=shape.lanes, lane_by="routing_key")
                    for vhost in shape.vhosts
                },
            },
            inputs=(
                InputSettings(topic=PUBLISHES, source="publishes", partitions=shape.partitions),
                InputSettings(topic=LOG, source="commands", partitions=shape.partitions),
            ),
            outbound=OutboundSettings(topic=f"{LOG}-{name}.{{vhost}}.{{user}}"),
        )
        self.config = config if cluster is None else cluster.config(config, name)
        self.tables = tables_place(self.config, os.environ)
        self._logs = SparkLogs(checkpoint_place(self.config, os.environ))
        self._look_s = LOOK_S if cluster is None else LOOK_AT_STORE_S
        file = self.root / "dlx.toml"
        file.write_text(show_config(self.config))
        self.process = Process(self.root, "run", "streaming.cli", "run", "--config", str(file))

    @property
    def outbound_topics(self) -> dict[str, str]:
        """The topics to which the job writes confirms, deliveries and answers, by vhost."""
        return {vhost: topic for (vhost, _user), topic in self.config.outbound_topics().items()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the job; at the end of the block nothing of it runs, whatever happened."""
        self.process.start()
        try:
            yield
        finally:
            self.process.kill()

    def rebuild(self) -> None:
        """Remove the checkpoint, and make a new one from the tables.

        Raises:
            RuntimeError: that failed.
        """
        shutil.rmtree(self.root / "checkpoints")
        command = ["checkpoint", "rebuild", "--config", str(self.root / "dlx.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "streaming.cli", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the checkpoint was not rebuilt:\n{done.stdout}{done.stderr}")

    def position(self) -> int:
        """Return the number of records of the log that finished batches have read."""
        ends = self._logs.next_positions()
        return sum(sum(ends.get(topic, {}).values()) for topic in (LOG, PUBLISHES))

    def wait(self, end: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the log is read; False if `until` became true first.

        Raises:
            RuntimeError: the job ended, or finished no batch for a long time.
        """
        latest, since_s = -1, time.monotonic()
        while (position := self.position()) < end:
            self.process.check()
            if position > latest:
                latest, since_s = position, time.monotonic()
            elif time.monotonic() - since_s > WAIT_S:
                raise RuntimeError(f"the job stayed at record {position} for {WAIT_S} s")
            if until():
                return False
            time.sleep(self._look_s)
        return True


class Undisturbed(NamedTuple):
    """A log, and the job that has read it undisturbed.

    Attributes:
        root: the folder of the jobs.
        messages: of the log.
        end: the number of its records.
    """

    root: Path
    servers: str
    messages: int
    end: int
    shape: LogShape
    job: ChaosJob


def run_chaos(
    root: Path,
    servers: str,
    messages: int,
    kills: int,
    *,
    seed: int = 1,
    rebuild: bool = False,
    report: Callable[[str], None] = say,
    cluster: LocalCluster | None = None,
    strike: Strike | None = None,
    shape: LogShape = DEFAULT_SHAPE,
) -> ChaosResult:
    """Run both jobs and compare what they leave.

    See `run_undisturbed` and `run_killed`.
    """
    calm = run_undisturbed(
        root, servers, messages, shape=shape._replace(holds=not rebuild), report=report
    )
    return run_killed(
        calm, kills, seed=seed, rebuild=rebuild, report=report, cluster=cluster, strike=strike
    )


def run_undisturbed(
    root: Path,
    servers: str,
    messages: int,
    *,
    shape: LogShape = DEFAULT_SHAPE,
    report: Callable[[str], None] = say,
) -> Undisturbed:
    """Write the log, and let the first job read it.

    Args:
        root: an empty folder.
        servers: a Kafka without topics of these names.
        shape: the partitions of the log, the lanes of its vhosts, and what it leaves open.
        report: called with lines about the progress.
    """
    end = produce_log(servers, messages, shape)
    calm = ChaosJob(root, servers, "calm", min(CALM_ROWS, max(600, end // 4)), shape=shape)
    with calm.running():
        calm.wait(end)
        calm.process.stop()
    report(f"{end} records; undisturbed run done")
    return Undisturbed(root, servers, messages, end, shape, calm)


def run_killed(
    calm: Undisturbed,
    kills: int,
    *,
    name: str = "killed",
    seed: int = 1,
    rebuild: bool = False,
    report: Callable[[str], None] = say,
    cluster: LocalCluster | None = None,
    strike: Strike | None = None,
    always_progress: bool = False,
) -> ChaosResult:
    """Let another job read the log with kills, and compare what it leaves.

    With `rebuild`, each kill also removes the checkpoint, and a new one is made from the tables.
    The log must leave no delivery unacked and no redrive open then: a rebuild requeues the ones and
    cancels the others, which is another outcome. `compare` says what else may differ.

    Args:
        kills: how often to kill the job.
        name: of the job, unlike those of others on this log.
        report: called with lines about the progress.
        cluster: runs the job's tasks, and has its checkpoint and tables; by default it is like the
            first one.
        strike: kills something of the job and replaces it; by default the whole job.
        always_progress: strike only once another batch was finished.
    """
    servers, end = calm.servers, calm.end
    batch_rows = max(LEAST_ROWS * calm.shape.partitions, end // (2 * kills + 4))
    killed = ChaosJob(calm.root, servers, name, batch_rows, cluster, calm.shape)
    strike = strike or (rebuild_job if rebuild else kill_job)
    with killed.running():
        done = _kill_often(
            killed,
            end,
            kills,
            random.Random(seed),
            report,
            strike,
            always_progress=rebuild or always_progress,
        )
        killed.wait(end)
        killed.process.stop()
    tables = calm.job.tables
    differences = compare_tables(tables, killed.tables, rebuilt=rebuild)
    for vhost, topic in calm.job.outbound_topics.items():
        differences += compare_outbound(
            servers, topic, killed.outbound_topics[vhost], rebuilt=rebuild, as_set=vhost == MERGED
        )
    differences += _unbalanced(killed.tables)
    rows = {table: len(rows_of(tables, table)) for table in COMPARED}
    redriven = sum("'kind': 'redriven'" in row for row in rows_of(tables, "events"))
    return ChaosResult(calm.messages, done, kills, rows, differences, redriven)


def _unbalanced(tables: Location) -> list[str]:
    """What a balance of the tables cannot explain, in words."""
    with closing(Tables(tables.url, tables.options)) as opened:
        return [f"balance: {one}" for one in balance(opened, whole=True).findings]


def kill_job(job: ChaosJob, _number: int, _chances: random.Random) -> str:
    """Kill all processes of the job, and start it again."""
    job.process.kill()
    job.process.start()
    return "job"


def rebuild_job(job: ChaosJob, _number: int, _chances: random.Random) -> str:
    """Kill the job, make a new checkpoint from its tables, and start it again."""
    job.process.kill()
    job.rebuild()
    job.process.start()
    return "job"


def _kill_often(
    job: ChaosJob,
    end: int,
    kills: int,
    chances: random.Random,
    report: Callable[[str], None],
    strike: Strike,
    *,
    always_progress: bool = False,
) -> int:
    """Kill and restart a job until it has read the log; return how often.

    Args:
        always_progress: strike only once another batch was finished.
    """
    for kill in range(kills):
        start_s = time.monotonic()
        # every third kill may come before a batch is finished
        needs_progress = always_progress or kill % 3 != 0
        goal = job.position() + 1 if needs_progress else 0
        delay_s = chances.uniform(0.0, 2.5) + (0 if needs_progress else 8)

        latest = end * (kill + 1) // (kills + 1)  # a fast job must not escape the kill

        def due(
            goal: int = goal,
            latest: int = latest,
            start_s: float = start_s,
            delay_s: float = delay_s,
        ) -> bool:
            position = job.position()
            is_time = time.monotonic() - start_s > delay_s or position >= latest
            return position >= goal and is_time

        if job.wait(end, due):
            return kill
        at = job.position()
        struck = strike(job, kill, chances)
        report(f"kill {kill + 1} of {kills}: the {struck} at record {at} of {end}")
    return kills
