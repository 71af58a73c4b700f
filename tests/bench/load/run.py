"""`dlx bench load`: publishers and consumers on a real job, checked against its tables.

    2 publishers --> work --> 4 consumers: reject 10 %, requeue 5 % once, ack the rest
                                 +--> graveyard

With `kills`, consumers, publishers, Kafka and the job are killed at random instants and restarted.
Afterwards everything must be accounted for (`verify.py`): every confirmed message arrived once,
every copy in the work queue was settled exactly once, no delivery was lost, order was kept except
for redeliveries, and the balance closes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from streaming.client import ClientError, Connection
from streaming.config import JobConfig, show_config
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.bench.load.actors import DEAD, GRAVEYARD, WORK
from tests.bench.load.drift import Change, Drift
from tests.bench.load.verify import LoadReport, copies_in_queue, verify
from tests.bench.processes import Process

PUBLISHERS, CONSUMERS = 2, 4
_MAX_START_S = 180.0
_MAX_DRAIN_S = 900.0
_DOWN_S = (0.0, 6.0)


class Load(NamedTuple):
    """The size of a run.

    Attributes:
        seconds: how long to publish.
        rate: messages per second of all publishers together.
        kills: how often to kill something meanwhile.
        seed: of the random choices.
    """

    seconds: float = 300.0
    rate: float = 1000.0
    kills: int = 0
    seed: int = 1


def run_load(
    root: Path, load: Load, report: Callable[[str], None] = print
) -> tuple[LoadReport, list[Change]]:
    """Run the load and verify it.

    Args:
        root: an empty folder; event logs, logs and tables stay in it.
        report: called with lines about the progress.

    Returns:
        The report, and how memory, files and batch time changed during the run.

    Raises:
        RuntimeError: a process ended by itself, or the queue was not drained in time.
    """
    with EmbeddedKafka(root / "kafka") as kafka:
        config = root / "dlx.toml"
        config.write_text(show_config(_config(root, kafka.bootstrap_servers)))
        job = Process(root, "job", "streaming.cli", "run", "--config", str(config))
        actors = _actors(root, config, load)
        processes = [job, *actors]
        drift = Drift(root, lambda: job.pid, lambda: kafka.pid)
        try:
            job.start()
            _declare(config)
            report("the job answers")
            for actor in actors:
                actor.start()
            with drift.sampling():
                _disturb(processes, kafka, load, report)
            for actor in actors:
                if actor.name.startswith("publisher"):
                    actor.stop()
            report("publishers done; draining")
            _drain(root, processes)
            for process in reversed(processes):
                process.stop()
        except BaseException:
            for process in reversed(processes):
                process.kill()
            raise
    return verify(root / "tables", sorted(root.glob("*.events"))), drift.changes()


def _config(root: Path, servers: str) -> JobConfig:
    return JobConfig(
        job=JobSettings(
            checkpoint_location=str(root / "checkpoints"),
            tables_location=str(root / "tables"),
            log_dir=str(root / "logs"),
            driver_memory="1g",
        ),
        kafka=KafkaSettings(bootstrap_servers=(servers,)),
    )


def _actors(root: Path, config: Path, load: Load) -> list[Process]:
    def actor(role: str, number: int, *more: str) -> Process:
        name = f"{role}-{number}"
        files = ("--config", str(config), "--events", str(root / f"{name}.events"))
        return Process(root, name, "tests.bench.load.actors", role, *files, *more)

    rate = str(load.rate / PUBLISHERS)
    return [
        *(actor("consumer", number) for number in range(CONSUMERS)),
        *(actor("publisher", number, "--rate", rate) for number in range(PUBLISHERS)),
    ]


def _declare(config: Path) -> None:
    """Declare the topology as soon as the job answers."""
    deadline_s = time.monotonic() + _MAX_START_S
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


def _disturb(
    processes: list[Process], kafka: EmbeddedKafka, load: Load, report: Callable[[str], None]
) -> None:
    """Let the load run, and kill something at random instants."""
    chances = random.Random(load.seed)
    start_s = time.monotonic()
    job, *actors = processes
    kinds = ["consumer", "job", "publisher", "kafka"]
    for kill in range(load.kills):
        at_s = load.seconds * (kill + chances.uniform(0.2, 0.9)) / load.kills
        time.sleep(max(0.0, start_s + at_s - time.monotonic()))
        kind = kinds[kill % len(kinds)]
        report(f"kill {kill + 1} of {load.kills}: {kind}")
        victim: EmbeddedKafka | Process = kafka
        if kind != "kafka":
            named = [each for each in actors if kind in each.name]
            victim = chances.choice([job] if kind == "job" else named)
        victim.kill()
        time.sleep(chances.uniform(*_DOWN_S))
        victim.start()
    while time.monotonic() < start_s + load.seconds:
        time.sleep(1)
        for process in processes:
            process.check()


def _drain(root: Path, processes: list[Process]) -> None:
    """Wait until the work queue is empty."""
    deadline_s = time.monotonic() + _MAX_DRAIN_S
    while copies_in_queue(root / "tables"):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"queue {WORK} was not drained within {_MAX_DRAIN_S:g} s")
        for process in processes:
            process.check()
        time.sleep(2)
