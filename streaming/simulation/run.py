"""Plays scenarios through the whole pipeline: Kafka, Spark, Delta tables, Kafka.

    run = PipelineRun(scenarios, compat, place)
    run.write_log()     all records of all scenarios, each scenario in its own vhost
    run.run_job()       until everything is committed, or for some batches and then again
    run.outcomes()

In a cluster, the job's tasks run on two workers that share no disk with the driver, and checkpoint
and tables are in an S3-compatible store.

All scenarios run in one job with `clock = event`. Its input is a topic with a few partitions. The
publishes and commands of a scenario are in one partition, which keeps them in order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain, zip_longest
from math import lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.errors import StreamingQueryException

from streaming import config
from streaming.broker.events import ENDINGS, Kind
from streaming.embedded.cluster import LocalCluster
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.job_locations import tables_place
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.protocol.record_headers import VHOST
from streaming.queries.duckdb_tables import Tables
from streaming.record_sender import RecordSender, SendError
from streaming.scenario.document import Scenario
from streaming.scenario.play import Outcome, Player
from streaming.simulation.log_brokers import LogReader, LogWriter, Outbox
from streaming.simulation.step_records import LogRecord, by_name
from topology.errors import DlxError
from topology.values import Compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

USER = "dlx-simulate"
PARTITIONS = 2
SHUFFLE_PARTITIONS = 2
TIMEOUT_S = 60.0
_MAX_QUARANTINED = 10


class SimulationError(DlxError):
    """The pipeline could not play the scenarios; the message says why."""


class RunPlace(NamedTuple):
    """Where a run happens.

    Attributes:
        directory: has checkpoint and tables, unless there is a cluster.
        name: the prefix of its topics and vhosts.
        cluster: runs the job's tasks; None: this process does.
    """

    directory: Path
    bootstrap_servers: str
    name: str = "simulate"
    cluster: LocalCluster | None = None


def play_through_pipeline(
    scenarios: Sequence[Scenario],
    compat: Compat,
    progress: Console | None = None,
    lanes: int = 1,
    *,
    in_cluster: bool = False,
) -> list[Outcome]:
    """Play scenarios with a Kafka and a Spark of their own, which are removed afterwards.

    Args:
        progress: shows progress bars while jars are downloaded.
        lanes: of each vhost; if there are several, all queues must be on a single one.
        in_cluster: run the job's tasks in a cluster of their own; needs root.

    Raises:
        DlxError: Kafka, Spark or the job failed.
    """
    if not scenarios:
        return []
    with TemporaryDirectory(prefix="dlx-simulate-") as folder, ExitStack() as running:
        directory = Path(folder)
        kafka = running.enter_context(EmbeddedKafka(directory / "kafka", progress=progress))
        cluster = None
        if in_cluster:
            hidden = [directory / "kafka", directory / "logs"]
            cluster = running.enter_context(LocalCluster(directory / "cluster", hidden=hidden))
        place = RunPlace(directory, kafka.bootstrap_servers, cluster=cluster)
        run = PipelineRun(scenarios, compat, place, lanes)
        run.write_log()
        run.run_job(progress=progress)
        return run.outcomes()


class PipelineRun:
    """Scenarios on their way through one job."""

    def __init__(
        self, scenarios: Sequence[Scenario], compat: Compat, place: RunPlace, lanes: int = 1
    ) -> None:
        self._scenarios = list(scenarios)
        self._compat: Compat = compat
        self._place = place
        self._lanes = lanes
        self._partitions = lcm(PARTITIONS, lanes)
        self._log_topic = f"{place.name}.log"
        self._vhosts = [f"{place.name}-{number}." for number in range(len(self._scenarios))]
        self._writers = [LogWriter(vhost) for vhost in self._vhosts]
        self._ends: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._batches = 0

    # -- in

    def write_log(self, *, interleaved: bool = False) -> int:
        """Create the topics and write the records of all scenarios; returns their number.

        Args:
            interleaved: write one record of each scenario in turn, not one scenario after the
                other. Small batches then cut every scenario in many places.
        """
        for scenario, writer in zip(self._scenarios, self._writers, strict=True):
            Player(scenario, writer).play()
        servers = {"bootstrap.servers": self._place.bootstrap_servers}
        KafkaTopics(self._config(), dict(servers)).prepare()
        sender = RecordSender({**servers, "enable.idempotence": True})
        offsets = [0] * self._partitions
        try:
            for partition, record in self._in_order(interleaved=interleaved):
                sender.send(
                    self._log_topic,
                    record.value,
                    headers=record.headers,
                    partition=partition,
                    timestamp=record.at_ms,
                )
                offsets[partition] += 1
            sender.flush(TIMEOUT_S)
        except SendError as error:
            raise SimulationError(
                f"Kafka did not accept the scenarios' records: {error}"
            ) from error
        self._written = {str(partition): end for partition, end in enumerate(offsets) if end}
        return sum(offsets)

    def _in_order(self, *, interleaved: bool) -> Iterator[tuple[int, LogRecord]]:
        logs: list[list[tuple[int, LogRecord]]] = [
            [(number % self._partitions, record) for record in writer.records]
            for number, writer in enumerate(self._writers)
        ]
        if not interleaved:
            return chain.from_iterable(logs)
        turns = chain.from_iterable(zip_longest(*logs))
        return (each for each in turns if each is not None)

    # -- through

    def run_job(
        self,
        spark: SparkSession | None = None,
        *,
        max_batch_rows: int = 20_000,
        batches: int | None = None,
        progress: Console | None = None,
    ) -> bool:
        """Run the job until everything is committed, or for about `batches`; whether it is.

        Args:
            spark: the session to use; None: one of its own.
            progress: shows progress bars while jars are downloaded.

        Raises:
            DlxError: the job cannot run, or failed.
        """
        job = Job(self._config(max_batch_rows), lambda done: self._committed(job, done), progress)
        self._batches = 0
        try:
            job.start(spark)
            while not self._is_done() and (batches is None or self._batches < batches):
                if job.wait(0.05):
                    raise SimulationError("the job stopped before it had read everything")
        except StreamingQueryException as error:
            raise SimulationError(f"the stream has failed: {error}") from error
        finally:
            job.stop()
        return self._is_done()

    def _committed(self, job: Job, done: BatchDone) -> None:
        self._batches += 1
        self._ends = job.checkpoint.logs.offsets(done.batch_id).ends.get(
            self._log_topic, self._ends
        )

    def _is_done(self) -> bool:
        return all(self._ends.get(partition, 0) >= end for partition, end in self._written.items())

    def _config(self, max_batch_rows: int = 20_000) -> config.JobConfig:
        place = self._place
        vhost_settings = config.VhostSettings(lanes=self._lanes, lane_by="routing_key")
        settings = config.JobConfig(
            job=config.JobSettings(
                checkpoint_location=str(place.directory / "checkpoints"),
                tables_location=str(place.directory / "tables"),
                log_dir=str(place.directory / "logs"),
                clock="event",
                compat=self._compat,
                trigger_ms=1,
                max_batch_rows=max_batch_rows,
                shuffle_partitions=SHUFFLE_PARTITIONS,
            ),
            kafka=config.KafkaSettings(bootstrap_servers=(place.bootstrap_servers,)),
            vhosts=dict.fromkeys(self._vhosts, vhost_settings),
            users={USER: config.UserSettings(administrator=True)},
            inputs=(
                config.InputSettings(topic=f"{place.name}.none", source="publishes", user=USER),
                config.InputSettings(
                    topic=self._log_topic, source="commands", user=USER, partitions=self._partitions
                ),
            ),
            outbound=config.OutboundSettings(topic=f"{place.name}.out.{{vhost}}.{{user}}"),
        )
        return settings if place.cluster is None else place.cluster.config(settings, place.name)

    # -- out

    def outcomes(self) -> list[Outcome]:
        """The outcome of each scenario.

        Raises:
            SimulationError: a record was quarantined, or replies are missing.
        """
        place = tables_place(self._config(), os.environ)
        with closing(Tables(place.url, place.options)) as tables:
            _refuse_quarantined(tables)
            outboxes = self._read_outboxes()
            event_seqs = {
                vhost: outboxes[vhost].event_seq_of(writer.looked_at)
                for vhost, writer in zip(self._vhosts, self._writers, strict=True)
            }
            unacked = _unacked_copies(tables, event_seqs)
        return [
            _outcome(scenario, outboxes[vhost], writer, unacked[vhost])
            for scenario, vhost, writer in zip(
                self._scenarios, self._vhosts, self._writers, strict=True
            )
        ]

    def _read_outboxes(self) -> dict[str, Outbox]:
        """Everything in the outbound topics, by vhost."""
        outboxes = {vhost: Outbox(vhost) for vhost in self._vhosts}
        for value, headers in _everything_in(
            self._place.bootstrap_servers, self._config().outbound_topics().values()
        ):
            outboxes[headers[VHOST].decode()].take(value, headers)
        return outboxes


def _outcome(scenario: Scenario, outbox: Outbox, writer: LogWriter, unacked: set[int]) -> Outcome:
    replies = outbox.replies()
    if len(replies) != writer.marks:
        raise SimulationError(
            f"scenario {scenario.id!r}: only {len(replies)} of {writer.marks} calls got a reply"
        )
    last = outbox.last_deliveries()
    return Player(scenario, LogReader(replies, {last[copy] for copy in unacked})).play()


def _everything_in(
    bootstrap_servers: str, topics: Iterable[str]
) -> Iterator[tuple[bytes, dict[str, bytes]]]:
    """Values and headers of all records in topics with one partition each."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": USER,  # never joined: partitions are assigned by hand
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        unread = {topic: TopicPartition(topic, 0, 0) for topic in topics}
        consumer.assign(list(unread.values()))
        heard_s = time.monotonic()
        while unread:
            messages = consumer.consume(1_000, 0.1)  # waits for 1,000 records or 0.1 s
            if messages:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > TIMEOUT_S:
                raise SimulationError(f"Kafka sent nothing for {TIMEOUT_S:g} s")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message.value() or b"", by_name(message.headers())
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    unread.pop(message.topic() or "", None)
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()


def _refuse_quarantined(tables: Tables) -> None:
    tables.view("quarantine", columns=["cause", "detail"])
    bad = tables.values("SELECT cause, detail FROM quarantine ORDER BY ALL")
    if bad:
        words = "\n".join(f"{cause}: {detail}" for cause, detail in bad[:_MAX_QUARANTINED])
        raise SimulationError(f"the pipeline quarantined {len(bad)} records:\n{words}")


def _unacked_copies(tables: Tables, event_seqs: Mapping[str, int]) -> dict[str, set[int]]:
    """Vhost -> the copies that were delivered and not settled before an event of the vhost."""
    found: dict[str, set[int]] = {vhost: set() for vhost in event_seqs}
    tables.view("events", columns=["vhost", "seq", "kind", "copy_id"])
    rows = tables.values(
        """
        SELECT vhost, copy_id
        FROM events
        JOIN (SELECT unnest($1) AS vhost, unnest($2) AS event_seq) USING (vhost)
        WHERE seq < event_seq AND copy_id IS NOT NULL AND list_contains($3, kind)
        GROUP BY vhost, copy_id
        HAVING arg_max(kind, seq) = 'delivered'
        """,
        (
            list(event_seqs),
            list(event_seqs.values()),
            [kind.name.lower() for kind in {*ENDINGS, Kind.DELIVERED, Kind.REQUEUED, Kind.HELD}],
        ),
    )
    for vhost, copy_id in rows:
        found[vhost].add(copy_id)
    return found
