"""Plays scenarios through the whole pipeline: Kafka, Spark, Delta tables, Kafka.

    run = PipelineRun(scenarios, compat, place)
    run.write_log()     all records of all scenarios, each scenario in its own vhost
    run.run_job()       until everything is committed, or for some batches and then again
    run.outcomes()

All scenarios run in one job with `clock = event`. Its input is a topic with a few partitions. The
publishes and commands of a scenario are in one partition, which keeps them in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from math import lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from streaming import config
from streaming.broker.events import ENDINGS, Kind
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.protocol.record_headers import VHOST
from streaming.record_sender import RecordSender, SendError
from streaming.scenario.document import Scenario
from streaming.scenario.play import Outcome, Player
from streaming.simulation.log_brokers import LogReader, LogWriter, Outbox
from streaming.simulation.step_records import LogRecord, by_name
from streaming.spark.session import SessionConfig, make_session, stop_session
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
    """Where a run happens; `name` is the prefix of its topics and vhosts."""

    directory: Path
    bootstrap_servers: str
    name: str = "simulate"


def play_through_pipeline(
    scenarios: Sequence[Scenario],
    compat: Compat,
    progress: Console | None = None,
    lanes: int = 1,
) -> list[Outcome]:
    """Play scenarios with a Kafka and a Spark of their own, which are removed afterwards.

    Args:
        progress: shows progress bars while jars are downloaded.
        lanes: of each vhost; if there are several, all queues must be on a single one.

    Raises:
        DlxError: Kafka, Spark or the job failed.
    """
    if not scenarios:
        return []
    with TemporaryDirectory(prefix="dlx-simulate-") as folder:
        directory = Path(folder)
        with EmbeddedKafka(directory / "kafka", progress=progress) as kafka:
            place = RunPlace(directory, kafka.bootstrap_servers)
            run = PipelineRun(scenarios, compat, place, lanes)
            run.write_log()
            session = SessionConfig(
                work_dir=directory / "work",
                log_dir=directory / "logs",
                shuffle_partitions=SHUFFLE_PARTITIONS,
            )
            spark = make_session(session, progress)
            try:
                run.run_job(spark)
            finally:
                stop_session(spark)
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
    ) -> bool:
        """Run the job until everything is committed, or for about `batches`; whether it is.

        Raises:
            DlxError: the job cannot run, or failed.
        """
        job = Job(self._config(max_batch_rows), lambda done: self._committed(job, done))
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
        return config.JobConfig(
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

    # -- out

    def outcomes(self) -> list[Outcome]:
        """The outcome of each scenario.

        Raises:
            SimulationError: a record was quarantined, or replies are missing.
        """
        tables = self._place.directory / "tables"
        bad = _query(
            tables / "quarantine",
            "select cause, detail from read_parquet($files, union_by_name = true) order by all",
        )
        if bad:
            words = "\n".join(f"{cause}: {detail}" for cause, detail in bad[:_MAX_QUARANTINED])
            raise SimulationError(f"the pipeline quarantined {len(bad)} records:\n{words}")
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


def _unacked_copies(tables: Path, event_seqs: Mapping[str, int]) -> dict[str, set[int]]:
    """Vhost -> the copies that were delivered and not settled before an event of the vhost."""
    found: dict[str, set[int]] = {vhost: set() for vhost in event_seqs}
    rows = _query(
        tables / "events",
        """
        select vhost, copy_id
        from read_parquet($files, union_by_name = true)
        join (select unnest($vhosts) as vhost, unnest($seqs) as event_seq) using (vhost)
        where seq < event_seq and copy_id is not null and list_contains($moves, kind)
        group by vhost, copy_id
        having arg_max(kind, seq) = 'delivered'
        """,
        vhosts=list(event_seqs),
        seqs=list(event_seqs.values()),
        moves=[kind.name.lower() for kind in {*ENDINGS, Kind.DELIVERED, Kind.REQUEUED, Kind.HELD}],
    )
    for vhost, copy_id in rows:
        found[vhost].add(copy_id)
    return found


def _query(table: Path, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    if not DeltaTable.is_deltatable(str(table)):
        return []
    files = DeltaTable(str(table)).file_uris()
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(sql, {"files": files, **parameters}).fetchall()
