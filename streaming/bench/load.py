"""Load: publishers and consumers at work on a real job, then the ledger as the judge.

    2 publishers --> work --> 4 consumers: 10 % rejected, 5 % requeued once, the rest acked
                                 +--> graveyard

With `kills`, consumers, publishers, Kafka and the job are killed at random instants and started
again. Afterwards everything must be accounted for (`judge.py`): every confirmed message arrived
once, every copy in the work queue was settled exactly once, no delivery was lost, the order was
kept but for redeliveries, and the balance is closed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from streaming.bench.actors import DEAD, GRAVEYARD, WORK
from streaming.bench.drift import Change, Steadiness
from streaming.bench.processes import Process
from streaming.bench.verify import Verdict, judge, left_in_queue
from streaming.client import ClientError, Connection
from streaming.config import JobConfig, show_config
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.embedded.kafka.broker import EmbeddedKafka

PUBLISHERS, CONSUMERS = 2, 4
_LONGEST_START_S = 180.0
_LONGEST_DRAIN_S = 900.0
_DOWN_S = (0.0, 6.0)


class Load(NamedTuple):
    """How much.

    Attributes:
        seconds: of publishing.
        rate: messages a second, of all publishers together.
        kills: how often something is killed meanwhile.
        seed: of the chances.
    """

    seconds: float = 300.0
    rate: float = 1000.0
    kills: int = 0
    seed: int = 1


def run_load(
    root: Path, load: Load, say: Callable[[str], None] = print
) -> tuple[Verdict, list[Change]]:
    """Run it and judge it; say how memory, files and batch time were early and late.

    Args:
        root: an empty folder; diaries, logs and tables stay in it.

    Raises:
        RuntimeError: a process ended by itself, or the queue was not drained.
    """
    with EmbeddedKafka(root / "kafka") as kafka:
        config = root / "dlx.toml"
        config.write_text(show_config(_config(root, kafka.bootstrap_servers)))
        job = Process(root, "job", "streaming.cli", "run", "--config", str(config))
        actors = _actors(root, config, load)
        everything = [job, *actors]
        steadiness = Steadiness(root, lambda: job.pid, lambda: kafka.pid)
        try:
            job.start()
            _declare(config)
            say("the job answers")
            for actor in actors:
                actor.start()
            with steadiness.watching():
                _disturb(everything, kafka, load, say)
            for actor in actors:
                if actor.name.startswith("publisher"):
                    actor.stop()
            say("publishers done; draining")
            _drain(root, everything)
            for process in reversed(everything):
                process.stop()
        except BaseException:
            for process in reversed(everything):
                process.kill()
            raise
    return judge(root / "tables", sorted(root.glob("*.diary"))), steadiness.changes()


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
        files = ("--config", str(config), "--diary", str(root / f"{name}.diary"))
        return Process(root, name, "streaming.bench.actors", role, *files, *more)

    rate = str(load.rate / PUBLISHERS)
    return [
        *(actor("consumer", number) for number in range(CONSUMERS)),
        *(actor("publisher", number, "--rate", rate) for number in range(PUBLISHERS)),
    ]


def _declare(config: Path) -> None:
    """Declare the topology as soon as the job answers."""
    deadline_s = time.monotonic() + _LONGEST_START_S
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
    everything: list[Process], kafka: EmbeddedKafka, load: Load, say: Callable[[str], None]
) -> None:
    """Let time pass; with kills, kill something at each of as many random instants."""
    chances = random.Random(load.seed)  # noqa: S311 - not for secrets
    started_s = time.monotonic()
    job, *actors = everything
    kinds = ["consumer", "job", "publisher", "kafka"]
    for kill in range(load.kills):
        at_s = load.seconds * (kill + chances.uniform(0.2, 0.9)) / load.kills
        time.sleep(max(0.0, started_s + at_s - time.monotonic()))
        kind = kinds[kill % len(kinds)]
        say(f"kill {kill + 1} of {load.kills}: {kind}")
        if kind == "kafka":
            kafka.kill()
            time.sleep(chances.uniform(*_DOWN_S))
            kafka.start()
            continue
        victims = [job] if kind == "job" else [each for each in actors if kind in each.name]
        victim = chances.choice(victims)
        victim.kill()
        time.sleep(chances.uniform(*_DOWN_S))
        victim.start()
    while time.monotonic() < started_s + load.seconds:
        time.sleep(1)
        for process in everything:
            process.check()


def _drain(root: Path, everything: list[Process]) -> None:
    """Wait until nothing is left in the work queue."""
    deadline_s = time.monotonic() + _LONGEST_DRAIN_S
    while left_in_queue(root / "tables"):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"queue {WORK} was not drained in {_LONGEST_DRAIN_S:g} s")
        for process in everything:
            process.check()
        time.sleep(2)
