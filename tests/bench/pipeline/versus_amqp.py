"""The AMQP front on Kafka beside RabbitMQ: PerfTest drives both, and a job follows the front's log.

    PerfTest --> RabbitMQ: durable classic queues, confirms --> PerfTest's consumers
    PerfTest --> dlx amqp --> Kafka (acks = all)            --> PerfTest's consumers
                                |
                                job --> tables

A burst begins with the first confirm and ends with the last message that was consumed; the job may
lag behind, and the line says how long. A steady rate is the front's alone: what counts is how old
the oldest record is that no table has, at worst. For minutes, publishers send as fast as they may,
and the front lets them wait for the tables (`amqp.max_lag_ms`). Kafka, the job, the front and
PerfTest share the cores.
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

import attrs
from confluent_kafka import Consumer, TopicPartition

from streaming.config import JobConfig, show_config
from streaming.config.amqp import AmqpSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.upkeep.maintenance import Schedule, TableMaintenance
from streaming.pipeline.flow.busy_traffic import BURST_S
from streaming.spark.jvm import make_nice, spare_cores
from streaming.spark.session import CORES_OF_FRONTS, NICE_TO_FRONTS
from streaming.storage.location import Location
from tests.bench.amqp import measure, perf_test
from tests.bench.pipeline.consuming import Consuming
from tests.bench.pipeline.figures import Figures, Sizes, percentile, us_per_message
from tests.bench.pipeline.rabbitmq import RabbitMQ
from tests.bench.pipeline.round_trips import round_trips
from tests.bench.pipeline.versus import QUEUES, WARMED_UP_FROM, consuming_from
from tests.bench.processes import Process
from tests.fixtures.waiting import WAIT_S, wait_until

if TYPE_CHECKING:
    from tests.bench.pipeline.environment import BenchEnvironment, RunningJob
    from tests.bench.pipeline.perf_test import PerfTestResult

NAME: Final = "versus_amqp"
PREFETCHES: Final = (500, 2_000)
SUSTAINED_LAG_MS: Final = 2_250
"""The front's `amqp.max_lag_ms` while minutes are measured: tables shall be 5 s behind at most, and
the front hears once a second how far the job is."""

ROUND_TRIPS: Final = 1_000

WARM_UP_S: Final = 60
"""Spark compiles what small batches need in their first minute."""

_SAMPLE_S: Final = 0.1
_MOST_RECORDS: Final = 100_000
_ANSWER_S: Final = 30.0


def versus_amqp(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare bursts and round trips with RabbitMQ; measure steady rates, and minutes."""
    root = environment.root / NAME
    gateway = environment.spark.sparkContext._gateway  # noqa: SLF001 (no other way)
    make_nice(gateway, NICE_TO_FRONTS)
    spare_cores(gateway, CORES_OF_FRONTS)
    with RabbitMQ(root / "rabbitmq", environment.amqp) as rabbitmq:
        _warm_up(environment, rabbitmq, sizes)
        if sizes.minutes:  # first: it warms Spark up
            yield _sustained(environment, rabbitmq, sizes)
        with _followed(environment, NAME) as (job, ends, front):
            _warm_up(environment, front, sizes)
            for queues, prefetch in itertools.product((1, QUEUES), PREFETCHES):
                name = f"{NAME}_{queues}_{prefetch}"
                kind = _burst(queues, prefetch, sizes)
                _wait_for_upkeep(job)
                theirs = consuming_from(rabbitmq, root / f"{name}_theirs", kind)
                yield {
                    "case": name,
                    **_beside(environment, job, ends, front, kind, theirs),
                    "rabbitmq": rabbitmq.version,
                }
            for rate in sizes.rates:
                _wait_for_upkeep(job)
                if sizes.consumed >= WARMED_UP_FROM:
                    measure(perf_test(), front.url, 1, WARM_UP_S, rate, durable=True)
                yield _steady(job, ends, front, rate, sizes.seconds)
            count = min(ROUND_TRIPS, sizes.consumed // 4)
            for each, who in ((front, "ours"), (rabbitmq, "theirs")):
                yield {"case": f"{NAME}_round_trips_{who}", **round_trips(each.url, count)}


def _beside(
    environment: BenchEnvironment,
    job: RunningJob,
    ends: LogEnds,
    front: RabbitMQ,
    kind: Consuming,
    theirs: PerfTestResult,
) -> Figures:
    """Measure what RabbitMQ was measured with."""
    ends.wait_for(job)
    began_s = time.time()
    folder = environment.root / NAME / f"ours_{began_s:.0f}"
    ours = consuming_from(front, folder, kind, environment.known_processes)
    ended_s = time.time()
    ends.wait_for(job)
    rows = ends.behind(job, began_s)
    return {
        "ours_per_s": round(ours.rate),
        "theirs_per_s": round(theirs.rate),
        "ratio": round(ours.rate / theirs.rate, 2),
        "row_p50_s": percentile(rows, 0.5),
        "row_p99_s": percentile(rows, 0.99),
        "tables_behind_s": rows[-1],
        "tables_after_s": round(job.batches[-1].at_s - ended_s, 1),
        **us_per_message(ours.cores, ours.rate),
        **us_per_message(theirs.cores, theirs.rate),
    }


def _wait_for_upkeep(job: RunningJob) -> None:
    """Wait until nothing of the burst before is left to compact, beside what comes next."""
    root = Location(job.config.job.tables_location)
    schedule = Schedule(
        compaction_ms=job.config.tables.compaction_interval_ms,
        target_bytes=job.config.tables.compaction_target_bytes,
    )
    tables = [TableMaintenance(root, name, schedule) for name in LEDGER]
    wait_until(
        lambda: not any(table.to_compact() for table in tables),
        lambda: f"{root.url}: files wait for compaction",
        BURST_S + schedule.compaction_ms / 1000 + WAIT_S,
        pause_s=1.0,
    )


def _sustained(environment: BenchEnvironment, rabbitmq: RabbitMQ, sizes: Sizes) -> Figures:
    """Publish for minutes what RabbitMQ takes in them, as fast as the front lets publishers.

    RabbitMQ's own rate is that of a burst that is four times as long as the others.
    """
    name = f"{NAME}_sustained"
    kind = Consuming(1, 2_000, 4 * sizes.consumed)
    theirs = consuming_from(rabbitmq, environment.root / f"{name}_theirs", kind)
    long = Consuming(1, 2_000, round(theirs.rate * 60 * sizes.minutes))
    with _followed(environment, name, SUSTAINED_LAG_MS) as (job, ends, front):
        _warm_up(environment, front, sizes)
        figures = _beside(environment, job, ends, front, long, theirs)
    return {"case": name, "messages": long.messages, **figures, "rabbitmq": rabbitmq.version}


def _warm_up(environment: BenchEnvironment, broker: RabbitMQ, sizes: Sizes) -> None:
    """Let a broker, and what is behind it, compile what a burst needs."""
    if sizes.consumed >= WARMED_UP_FROM:
        folder = environment.root / f"{NAME}_warm_up_{broker.pid}"
        consuming_from(broker, folder, _burst(1, 2_000, sizes))


def _burst(queues: int, prefetch: int, sizes: Sizes) -> Consuming:
    return Consuming(queues, prefetch, sizes.consumed)


def _steady(job: RunningJob, ends: LogEnds, front: RabbitMQ, rate: int, seconds: int) -> Figures:
    """Publish at a steady rate to one queue."""
    ends.wait_for(job)
    name = f"{NAME}_steady_{rate}"
    began_s = time.time()
    found = measure(perf_test(), front.url, 1, seconds, rate, durable=True)
    ended_s = time.time()
    ends.wait_for(job)
    rows = ends.behind(job, began_s)
    return {
        "case": name,
        "messages_per_s": found.rate,
        "seconds": seconds,
        "confirm_p50_ms": round(found.confirm_ms[0], 2),
        "confirm_p99_ms": round(found.confirm_ms[1], 2),
        "second_p99_ms": round(found.second_p99_ms, 2),
        "row_p50_s": percentile(rows, 0.5),
        "row_p99_s": percentile(rows, 0.99),
        "tables_behind_s": rows[-1],
        **_slowest(job, began_s),
        **job.cpu.cores(began_s, ended_s),
    }


@contextmanager
def _followed(
    environment: BenchEnvironment,
    name: str,
    max_lag_ms: int = AmqpSettings().max_lag_ms,
) -> Iterator[tuple[RunningJob, LogEnds, RabbitMQ]]:
    """A job that follows a front, and a client of that; all of one name."""
    amqp = AmqpSettings(
        log_topic=f"{name}.log.{{vhost}}",
        leaders_topic=f"{name}.leaders",
        max_lag_ms=max_lag_ms,
        management_port=free_port(),
        metrics_port=free_port(),
    )
    config = attrs.evolve(
        environment.config(name, f"{name}.publishes"),
        vhosts={"/": VhostSettings(sequenced=True)},
        amqp=amqp,
    )
    root = environment.root / name
    known = environment.known_processes
    with (
        _front(environment, name, config) as (url, pid),
        RabbitMQ(root / "none", url) as front,
    ):
        known[pid] = "front"
        with (
            environment.job(config) as job,
            LogEnds(environment.servers, config.log_topics()["/"]) as ends,
        ):
            yield job, ends, front
    del known[pid]


@contextmanager
def _front(
    environment: BenchEnvironment, name: str, config: JobConfig
) -> Iterator[tuple[str, int]]:
    """A front of a configuration that its job shares; its URL and process."""
    environment.traffic.create_topic(f"{name}.publishes", 1)
    environment.traffic.create_topic(f"{name}.commands", 1)
    root = environment.root / name
    root.mkdir(exist_ok=True)
    file = root / "dlx.toml"
    file.write_text(show_config(config))
    port = free_port()
    arguments = ("amqp", "--config", str(file), "--port", str(port))
    front = Process(root, "front", "streaming.cli", *arguments)
    front.start()
    try:
        wait_until(lambda: "listening on" in front.log_end(), front.log_end)
        assert front.pid is not None, "it was started"
        yield f"amqp://guest:guest@{LOOPBACK}:{port}/%2F", front.pid
    finally:
        front.stop()


class LogEnds:
    """When a log reached which offset, inside its `with` block."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": NAME})
        self._at_s: list[float] = []
        self._ends: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log ends", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            end = self._end()
            self._at_s.append(time.time())
            self._ends.append(end)

    def _end(self) -> int:
        partition = TopicPartition(self._topic, 0)
        return int(self._consumer.get_watermark_offsets(partition, timeout=_ANSWER_S)[1])

    def wait_for(self, job: RunningJob) -> None:
        """Wait until the job has committed what the log has now."""
        end = self._end()
        job.wait_until(lambda: self._read(job)[-1][1] >= end)
        time.sleep(2 * _SAMPLE_S)  # the samples have it, too

    def _read(self, job: RunningJob) -> Sequence[tuple[float, int]]:
        return [
            (each.at_s, each.batch.offsets.get(self._topic, {}).get("0", 0))
            for each in job.batches or ()
        ] or [(0.0, 0)]

    def behind(self, job: RunningJob, since_s: float) -> list[float]:
        """How old records were when the tables had them, sorted, in seconds.

        It has each record, or evenly spread ones if they are many, and the first of each batch.
        """
        read = [(0.0, 0), *self._read(job)]
        batches = [
            (at_s, first, end)
            for (_, first), (at_s, end) in itertools.pairwise(read)
            if at_s >= since_s and end > first
        ]
        step = max(1, sum(end - first for _, first, end in batches) // _MOST_RECORDS)
        ages = []
        for at_s, first, end in batches:
            for offset in range(first, end, step):
                place = min(bisect_right(self._ends, offset), len(self._at_s) - 1)
                ages.append(round(at_s - self._at_s[place], 2))
        return sorted(ages)


def _slowest(job: RunningJob, since_s: float) -> Figures:
    """The parts of the longest time between two commits: what a late row has waited for."""
    periods = [
        (done.at_s - before.at_s, done.batch.seconds)
        for before, done in itertools.pairwise(job.batches)
        if done.at_s >= since_s
    ]
    period_s, parts = max(periods, key=lambda one: one[0], default=(0.0, {}))
    return {
        "slowest_s": round(period_s, 2),
        **{f"slowest_{name}_s": parts.get(name) for name in ("stages", "commit", "batch")},
    }
