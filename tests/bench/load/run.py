"""`dlx bench load`: publishers and consumers on a real job, checked against its tables.

    2 publishers --> work --> 4 consumers: reject 10 %, requeue 5 % once, ack the rest
                                 +--> graveyard

In a cluster, the job's tasks run on two workers that share nothing with the driver
(`tests.fixtures.strangers`), and its checkpoint and tables are in MinIO.

With `kills`, consumers, publishers, Kafka, the job, and in a cluster one of the workers, are killed
at random instants and replaced.

Afterwards everything must be accounted for (`verify.py`): every confirmed message arrived once,
every copy in the work queue was settled exactly once, no delivery was lost, and the balance closes.
The input topics have several partitions, and batches decide how they merge. So messages are
compared as a set, and order is checked among those of one record key, except for redeliveries.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from streaming.client import ClientError, Connection
from streaming.config import JobConfig, show_config
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.cluster import LocalCluster
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.job_locations import tables_place
from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.storage.location import Location
from tests.bench.load.actors import DEAD, GRAVEYARD, WORK
from tests.bench.load.drift import SAMPLE_S, Change, Drift
from tests.bench.load.verify import LoadReport, copies_in_queue, verify
from tests.bench.processes import Process
from tests.fixtures.minio import Minio
from tests.fixtures.strangers import Strangers

PUBLISHERS, CONSUMERS = 2, 4
LEAST_SAMPLES = 30
"""A short run is sampled more often; a process that was killed is missing in some samples."""

_MAX_START_S = 180.0
_MAX_DRAIN_S = 900.0
_DOWN_S = (0.0, 6.0)
_NO_KAFKA = "kafka-unreachable"


class Load(NamedTuple):
    """The size of a run.

    Attributes:
        seconds: how long to publish.
        rate: messages per second of all publishers together.
        kills: how often to kill something meanwhile.
        seed: of the random choices.
        partitions: of each input topic.
        lanes: of the vhost.
    """

    seconds: float = 300.0
    rate: float = 1000.0
    kills: int = 0
    seed: int = 1
    partitions: int = 4
    lanes: int = 2


def run_load(
    root: Path, load: Load, report: Callable[[str], None] = print, *, in_cluster: bool = False
) -> tuple[LoadReport, list[Change]]:
    """Run the load and verify it.

    Args:
        root: an empty folder; event logs, logs and tables stay in it.
        report: called with lines about the progress.
        in_cluster: run the job's tasks in a cluster; needs root, and Go to build MinIO once.

    Returns:
        The report, and how memory, files and batch time changed during the run.

    Raises:
        RuntimeError: a process ended by itself, or the queue was not drained in time.
    """
    with ExitStack() as running:
        kafka = running.enter_context(EmbeddedKafka(root / "kafka"))
        settings = job_config(root, kafka.bootstrap_servers, load.partitions, load.lanes)
        cluster = None
        if in_cluster:
            hidden = [root / "kafka", root / "logs", root / "store"]
            store = running.enter_context(Minio(root / "store"))
            cluster = running.enter_context(Strangers(root / "cluster", hidden, store))
            settings = cluster.config(settings)
        tables = tables_place(settings, os.environ)
        config = root / "dlx.toml"
        config.write_text(show_config(settings))
        job = Process(root, "job", "streaming.cli", "run", "--config", str(config))
        actors = _actors(root, config, load)
        processes = [job, *actors]
        drift = Drift(root, tables, lambda: job.pid, lambda: kafka.pid)
        try:
            job.start()
            declare(config, _MAX_START_S)
            report("the job answers")
            for actor in actors:
                actor.start()
            with drift.sampling(min(SAMPLE_S, load.seconds / LEAST_SAMPLES)):
                worker = None if cluster is None else AnyWorker(cluster, random.Random(load.seed))
                _disturb(tables, processes, kafka, load, report, worker)
            for actor in actors:
                if actor.name.startswith("publisher"):
                    actor.stop()
            report("publishers done; draining")
            _drain(tables, processes)
            for process in reversed(processes):
                process.stop()
        except BaseException:
            for process in reversed(processes):
                process.kill()
            raise
        return verify(tables, sorted(root.glob("*.events"))), drift.changes()


class AnyWorker:
    """A worker of a cluster, another one at each kill; `start` adds one in its place."""

    def __init__(self, cluster: LocalCluster, chances: random.Random) -> None:
        self._cluster = cluster
        self._chances = chances

    def kill(self) -> None:
        """Kill a worker like a crash; its executor ends too."""
        spark = self._cluster.spark
        spark.kill_worker(self._chances.choice(sorted(spark.workers)))

    def start(self) -> None:
        """Add a worker."""
        self._cluster.add_worker()


def job_config(root: Path, servers: str, partitions: int = 1, lanes: int = 1) -> JobConfig:
    """Return the configuration of a job whose files are all in one folder."""
    return JobConfig(
        job=JobSettings(
            checkpoint_location=str(root / "checkpoints"),
            tables_location=str(root / "tables"),
            log_dir=str(root / "logs"),
            driver_memory="1g",
        ),
        kafka=KafkaSettings(bootstrap_servers=(servers,), topic_partitions=partitions),
        vhosts={DEFAULT_VHOST: VhostSettings(lanes=lanes)},
    )


def _actors(root: Path, config: Path, load: Load) -> list[Process]:
    rate = str(load.rate / PUBLISHERS)
    return [
        *(actor(root, config, "consumer", number) for number in range(CONSUMERS)),
        *(actor(root, config, "publisher", number, "--rate", rate) for number in range(PUBLISHERS)),
    ]


def actor(root: Path, config: Path, role: str, number: int, *more: str) -> Process:
    """Return the process of a publisher or consumer; it writes its events into the folder."""
    name = f"{role}-{number}"
    files = ("--config", str(config), "--events", str(root / f"{name}.events"))
    return Process(root, name, "tests.bench.load.actors", role, *files, *more)


def declare(config: Path, timeout_s: float) -> None:
    """Declare the topology as soon as the job answers."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            with Connection.from_config(config, timeout_s=30) as connection:
                channel = connection.channel()
                channel.declare_exchange(DEAD, "fanout")
                channel.declare_queue(GRAVEYARD)
                channel.bind_queue(GRAVEYARD, DEAD)
                channel.declare_queue(WORK, arguments={"x-dead-letter-exchange": DEAD})
        except ClientError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(1)
        else:
            return


def keep_running(job: Process) -> None:
    """Start the job again if it ended because Kafka was down when it started.

    Raises:
        RuntimeError: it ended for another reason.
    """
    try:
        job.check()
    except RuntimeError as error:
        if _NO_KAFKA not in str(error):
            raise
        job.start()


def commits(tables: Location) -> int:
    """Return how often the job has committed events."""
    events = tables / "events"
    return DeltaTable(events.url, storage_options=dict(events.options)).version()


def _disturb(
    tables: Location,
    processes: list[Process],
    kafka: EmbeddedKafka,
    load: Load,
    report: Callable[[str], None],
    worker: AnyWorker | None = None,
) -> None:
    """Let the load run, and kill something at random instants while the job works."""
    chances = random.Random(load.seed)
    start_s = time.monotonic()
    job, *actors = processes
    kinds = ["consumer", "job", "publisher", "kafka"]
    if worker is not None:
        kinds.append("worker")
    since = -1
    for kill in range(load.kills):
        at_s = load.seconds * (kill + chances.uniform(0.2, 0.9)) / load.kills
        time.sleep(max(0.0, start_s + at_s - time.monotonic()))
        _wait_for_commit(tables, job, since)
        kind = kinds[kill % len(kinds)]
        report(f"kill {kill + 1} of {load.kills}: {kind}")
        victim: EmbeddedKafka | Process | AnyWorker = kafka
        if kind == "worker" and worker is not None:
            victim = worker
        elif kind != "kafka":
            named = [each for each in actors if kind in each.name]
            victim = chances.choice([job] if kind == "job" else named)
        victim.kill()
        time.sleep(chances.uniform(*_DOWN_S))
        victim.start()
        since = commits(tables)
    while time.monotonic() < start_s + load.seconds:
        time.sleep(1)
        keep_running(job)
        for actor in actors:
            actor.check()


def _wait_for_commit(tables: Location, job: Process, since: int) -> None:
    """Wait until the job has committed more often than `since`."""
    deadline_s = time.monotonic() + _MAX_DRAIN_S
    while commits(tables) <= since:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"the job did not commit within {_MAX_DRAIN_S:g} s")
        keep_running(job)
        time.sleep(0.2)


def _drain(tables: Location, processes: list[Process]) -> None:
    """Wait until the work queue is empty."""
    deadline_s = time.monotonic() + _MAX_DRAIN_S
    while copies_in_queue(tables):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"queue {WORK} was not drained within {_MAX_DRAIN_S:g} s")
        keep_running(processes[0])
        for process in processes[1:]:
            process.check()
        time.sleep(1)
