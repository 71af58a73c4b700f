"""The environment of `dlx bench pipeline`: an embedded Kafka, a Spark session, and jobs on them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from streaming.config import JobConfig
from streaming.config.flow import FlowSettings, Relative
from streaming.config.inputs import InputSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.cluster import PROPERTIES
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.spark.session import SessionConfig, available_cores, make_session, stop_session
from tests.bench.pipeline.traffic import TrafficWriter
from tests.bench.processes import CpuUse
from tests.fixtures.settings import job_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S: Final = 600
"""A case that takes longer than this is stuck."""


@dataclass(frozen=True)
class CommittedBatch:
    """A committed batch, and when the driver learned of it (epoch seconds)."""

    at_s: float
    batch: BatchDone

    @property
    def publishes(self) -> int:
        """Publishes that it read."""
        return sum(report.publishes for report in self.batch.reports)

    @property
    def deaths(self) -> int:
        """Messages that died in it."""
        return sum(sum(report.deaths.values()) for report in self.batch.reports)


class BenchEnvironment:
    """Kafka and Spark for one run, with everything in one folder.

    Args:
        amqp: the URL of a RabbitMQ to compare with; by default the installed server is started.
        master: that of a Spark cluster; by default all runs on one machine's cores.
        partitions: tasks of the stateful stage; by default one per core.

    Attributes:
        known_processes: which part of the system a process id belongs to.
    """

    def __init__(
        self,
        root: Path,
        amqp: str | None = None,
        *,
        master: str | None = None,
        partitions: int | None = None,
    ) -> None:
        self.root = root
        self.amqp = amqp
        self.known_processes: dict[int, str] = {}
        self.cores = available_cores()
        self._master = master
        self._partitions = partitions or self.cores
        self._kafka = EmbeddedKafka(root / "kafka")
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        self._kafka.start()
        assert self._kafka.pid is not None
        self.known_processes[self._kafka.pid] = "kafka"
        self._spark = make_session(
            SessionConfig(
                work_dir=self.root / "work",
                log_dir=self.root / "logs",
                master=self._master or f"local[{self.cores}]",
                shuffle_partitions=self._partitions,
                properties={} if self._master is None else PROPERTIES,
            )
        )
        self.traffic = TrafficWriter(self.servers)
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None:
            stop_session(self._spark)
        del self.traffic
        gc.collect()  # clients in reference cycles would report that Kafka is gone
        self._kafka.stop()

    @property
    def servers(self) -> str:
        """Kafka's address."""
        return self._kafka.bootstrap_servers

    @property
    def spark(self) -> SparkSession:
        """The session that all jobs share."""
        assert self._spark is not None, "the environment was not entered"
        return self._spark

    def config(
        self,
        name: str,
        publishes: str,
        *,
        lanes: int = 1,
        batch_rows: int = 200_000,
        trigger_ms: int = 100,
    ) -> JobConfig:
        """Return the configuration of a job that reads publishes from a given topic."""
        return JobConfig(
            job=job_settings(
                self.root / name,
                shuffle_partitions=self._partitions,
                max_batch_rows=batch_rows,
                trigger_ms=trigger_ms,
            ),
            kafka=KafkaSettings(bootstrap_servers=(self.servers,)),
            vhosts={"/": VhostSettings(lanes=lanes)},
            inputs=(
                InputSettings(topic=publishes, source="publishes"),
                InputSettings(topic=f"{name}.commands", source="commands", partitions=lanes),
            ),
            outbound=OutboundSettings(topic=f"{name}.out.{{vhost}}.{{user}}"),
            flow=FlowSettings(vm_memory_high_watermark=Relative(0)),
        )

    def declare(self, name: str, commands: list[dict[str, Any]], lanes: int = 1) -> None:
        """Write the topology of a job that is not started yet into its command topic."""
        self.traffic.declare(f"{name}.commands", commands, lanes)

    @contextmanager
    def job(self, config: JobConfig) -> Iterator[RunningJob]:
        """Run a job until the end of the block."""
        running = RunningJob(config, self.known_processes)
        running.job.start(self.spark)
        try:
            with running.cpu:
                yield running
            running.progress = running.job.query.recentProgress
        finally:
            running.job.stop()


class RunningJob:
    """A job and the batches that it has committed.

    Attributes:
        batches: the committed batches.
        progress: Spark's progress of the last batches; set when the job has stopped.
    """

    def __init__(self, config: JobConfig, known: Mapping[int, str]) -> None:
        self.config = config
        self.cpu = CpuUse(known)
        self.progress: list[Any] = []
        self.batches: list[CommittedBatch] = []
        self._changed = threading.Condition()
        self.job = Job(config, self._note)

    def _note(self, batch: BatchDone) -> None:
        with self._changed:
            self.batches.append(CommittedBatch(time.time(), batch))
            self._changed.notify_all()

    @property
    def published(self) -> int:
        """Publishes read so far."""
        return sum(batch.publishes for batch in self.batches)

    def commands_read(self, topic: str) -> int:
        """Return how many commands of a topic's first partition were read so far."""
        return self.batches[-1].batch.offsets[topic]["0"] if self.batches else 0

    @property
    def died(self) -> int:
        """Deaths so far."""
        return sum(batch.deaths for batch in self.batches)

    @property
    def resident(self) -> int | None:
        """Messages in the queues after the last batch; None before the first."""
        if not self.batches:
            return None
        return sum(report.resident_messages for report in self.batches[-1].batch.reports)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that changes with batches.

        Raises:
            RuntimeError: the job ended, or the condition takes too long.
        """
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise RuntimeError(
                    f"{self.config.job.tables_location}: stuck after {WAIT_S} s: {self.published} "
                    f"publishes read and {self.died} deaths in {len(self.batches)} batches; "
                    f"Spark says {self.job.query.status}"
                )
            with self._changed:
                self._changed.wait(0.2)
            if self.job.wait(0.001):
                raise RuntimeError("the job ended")

    def wait_for_progress(self) -> None:
        """Wait until Spark has recorded the last committed batch."""
        last_id = self.batches[-1].batch.batch_id
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            last = self.job.query.lastProgress
            if last is not None and last["batchId"] >= last_id:
                return
            time.sleep(0.05)
