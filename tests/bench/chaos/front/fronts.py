"""What runs: a Kafka, a job on Spark, and two fronts of which one leads."""

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from streaming.config import JobConfig, show_config
from streaming.config.kafka import KafkaSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.ports import free_port
from streaming.job_locations import checkpoint_place, tables_place
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from tests.bench.processes import Process
from tests.fixtures.settings import ONE_SHARD, job_settings

VHOST: Final = "/"
_LEADS: Final = re.compile(r"vhost /: leads since offset (\d+)")
_NO_KAFKA: Final = re.compile(
    r"(\(kafka\.security\)\?|kafka\.bootstrap_servers: no answer from .*|Kafka did not return .*) "
    r"\(dlx doctor explain kafka-unreachable\)$"
    r"|cannot be read: Failed to get metadata: .*\nstopped$"
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_SHOWN: Final = 2_000
_FOLLOWS: Final = "following "
_LEADS_NO_MORE: Final = "this front leads it no more"


def was_without_kafka(log_end: str) -> bool:
    """Whether a job or a front ended because Kafka did not answer when it started."""
    return _NO_KAFKA.search(log_end.rstrip()) is not None


def tracebacks(processes: Iterable[Process]) -> list[str]:
    """What processes wrote that is no word to a user: the first in each log."""
    found = []
    for process in processes:
        _before, begin, rest = process.log.read_text(errors="replace").partition(_TRACEBACK)
        if begin:
            found.append(f"{process.name} wrote a traceback: {begin}{rest[:_SHOWN]}")
    return found


class FrontProcess:
    """A front. It is started as a standby: it leads when nobody else does."""

    def __init__(self, root: Path, name: str, config: Path) -> None:
        self.name = name
        self.port = free_port()
        command = ("streaming.cli", "amqp", "--config", str(config), "--port", str(self.port))
        self.process = Process(root, name, *command, "--standby")
        self._begin = 0

    def start(self) -> None:
        """Start it."""
        self._begin = self.process.log.stat().st_size if self.process.log.exists() else 0
        self.process.start()

    def follows(self) -> bool:
        """Whether it has begun: before that, a SIGTERM is no clean stop."""
        return _FOLLOWS in self._said()

    def _said(self) -> str:
        """What it has written since its start."""
        with self.process.log.open("rb") as log:
            log.seek(self._begin)
            return log.read().decode(errors="replace")

    @property
    def leads_since(self) -> int | None:
        """The offset since which it leads, as far as it knows; None if it does not."""
        said = self._said()
        found = list(_LEADS.finditer(said))
        if not found or said.rfind(_LEADS_NO_MORE) > found[-1].start():
            return None
        return int(found[-1][1])


class Running:
    """Everything that runs, supervised: what ends by itself is noted, and started again.

    The job does not yield to the fronts: nothing is measured, and others may use the machine.

    Attributes:
        ends: what ended by itself, with the end of its log.
        too_early: starts that ended because Kafka was not there, as they should.
    """

    def __init__(self, root: Path, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self.config = JobConfig(
            job=job_settings(root, driver_memory="1g", nice=0, spare_cores=0, **ONE_SHARD),
            kafka=KafkaSettings(bootstrap_servers=(kafka.bootstrap_servers,)),
            vhosts={VHOST: VhostSettings(sequenced=True)},
        )
        self.file = root / "dlx.toml"
        self.file.write_text(show_config(self.config))
        self.job = Process(root, "job", "streaming.cli", "run", "--config", str(self.file))
        self.fronts = [FrontProcess(root, name, self.file) for name in ("one", "other")]
        self.tables = tables_place(self.config, os.environ)
        self.topic = self.config.log_topics()[VHOST]
        self.ends: list[str] = []
        self.too_early = 0
        self._logs = SparkLogs(checkpoint_place(self.config, os.environ))

    def start(self) -> None:
        """Start the fronts and the job."""
        for front in self.fronts:
            front.start()
        self.job.start()

    def kill(self) -> None:
        """Leave nothing running but Kafka."""
        for process in (*(front.process for front in self.fronts), self.job):
            process.kill()

    def leader(self) -> FrontProcess | None:
        """The front that leads; of two that believe so, the newer one."""
        since = {front.name: front.leads_since for front in self.fronts}
        leading = [front for front in self.fronts if since[front.name] is not None]
        return max(leading, key=lambda front: since[front.name] or 0, default=None)

    def other(self, front: FrontProcess) -> FrontProcess:
        """The other front."""
        return self.fronts[1 - self.fronts.index(front)]

    def pause(self, seconds: float) -> None:
        """Supervise for a while."""
        deadline_s = time.monotonic() + seconds
        while True:
            self._supervise()
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(left_s, 0.2))

    def _supervise(self) -> None:
        for process, start in (
            *((front.process, front.start) for front in self.fronts),
            (self.job, self.job.start),
        ):
            try:
                process.check()
            except RuntimeError as ended:
                text = str(ended)
                if was_without_kafka(text):
                    self.too_early += 1
                else:
                    self.ends.append(f"{text.splitlines()[0]} ... {text[-500:]}")
                start()

    def log_end(self) -> int:
        """The number of records of the log."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "end"})
        _first, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=30)
        consumer.close()
        return int(end)

    def job_position(self) -> int:
        """How many records of the log are in the tables."""
        return sum(self._logs.next_positions().get(self.topic, {}).values())
