"""Where `dlx bench pipeline` measures: an embedded Kafka, a Spark session, and jobs on them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from streaming.bench.cpu_use import CpuUse
from streaming.bench.pipeline_load import Log
from streaming.config import JobConfig
from streaming.config.flow import FlowSettings, Relative
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.spark.session import SessionConfig, available_cores, make_session, stop_session

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

WAIT_S: Final = 600
"""Longer than this nothing takes that is not stuck."""


@dataclass(frozen=True)
class Done:
    """A committed batch, and when the driver knew that it was.

    Attributes:
        at_s: on the wall, epoch seconds.
    """

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

    @property
    def events(self) -> int:
        """Rows of `events`."""
        return self.batch.events


class Stand:
    """Kafka and Spark for one run; everything below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cores = available_cores()
        self._kafka = EmbeddedKafka(root / "kafka")
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        self._kafka.start()
        self._spark = make_session(
            SessionConfig(
                work_dir=self.root / "work",
                log_dir=self.root / "logs",
                master=f"local[{self.cores}]",
                shuffle_partitions=self.cores,
            )
        )
        self.log = Log(self.servers)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._spark is not None:
            stop_session(self._spark)
        del self.log
        gc.collect()  # clients in cycles would see Kafka go, and say so
        self._kafka.stop()

    @property
    def servers(self) -> str:
        """Kafka's address."""
        return self._kafka.bootstrap_servers

    @property
    def spark(self) -> SparkSession:
        """The session that all jobs share."""
        assert self._spark is not None, "the stand was not entered"
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
        """A job with its own checkpoint, tables and commands; it reads publishes from a topic."""
        return JobConfig(
            job=JobSettings(
                checkpoint_location=str(self.root / name / "checkpoints"),
                tables_location=str(self.root / name / "tables"),
                log_dir=str(self.root / name / "logs"),
                shuffle_partitions=self.cores,
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

    def declare(self, name: str, documents: list[dict[str, Any]], lanes: int = 1) -> None:
        """Write the topology of a job that is not started yet into its log."""
        self.log.make(f"{name}.commands", lanes)
        self.log.command(f"{name}.commands", documents)

    def drain(self, job: Running) -> None:
        """Let Spark note the last batch, which the driver has just committed."""
        done = job.done[-1].batch.batch_id
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            last = job.job.query.lastProgress
            if last is not None and last["batchId"] >= done:
                return
            time.sleep(0.05)

    @contextmanager
    def job(self, config: JobConfig) -> Iterator[Running]:
        """A running job; it is stopped at the end."""
        running = Running(config, self._kafka.pid)
        running.job.start(self.spark)
        try:
            with running.cpu:
                yield running
            running.progress = running.job.query.recentProgress
        finally:
            running.job.stop()


class Running:
    """A job and the batches that it has committed.

    Attributes:
        progress: Spark's, of the last batches; there at the end.
    """

    def __init__(self, config: JobConfig, kafka_pid: int | None) -> None:
        self.config = config
        self.cpu = CpuUse(kafka_pid)
        self.progress: list[Any] = []
        self.done: list[Done] = []
        self._more = threading.Condition()
        self.job = Job(config, self._note)

    def _note(self, batch: BatchDone) -> None:
        with self._more:
            self.done.append(Done(time.time(), batch))
            self._more.notify_all()

    @property
    def published(self) -> int:
        """Publishes read so far."""
        return sum(one.publishes for one in self.done)

    @property
    def died(self) -> int:
        """Deaths so far."""
        return sum(one.deaths for one in self.done)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that changes with batches.

        Raises:
            RuntimeError: the job ended, or it takes too long.
        """
        deadline = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.config.job.tables_location}: not within {WAIT_S} s: {self.published} "
                    f"publishes read and {self.died} deaths in {len(self.done)} batches; "
                    f"Spark says {self.job.query.status}"
                )
            with self._more:
                self._more.wait(0.2)
            if self.job.wait(0.001):
                raise RuntimeError("the job ended")

    def until_died(self, published: int, died: int) -> None:
        """Wait until so many publishes were read, and so many deaths happened."""
        self.until(lambda: self.published >= published and self.died >= died)
