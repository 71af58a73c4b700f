"""The job beside RabbitMQ: the same work, on the same machine, in the same run.

    PerfTest  --> RabbitMQ: 10 durable classic queues, confirms --> dlq, or PerfTest's consumers
    publisher --> Kafka --> job: the same topology              --> dlq, or our consumers

The time of both begins with the first publish. It ends when the last message lies in `dlq` or was
acknowledged. So both figures contain the work of the publisher, on the cores of this machine.
`from_log_per_s` is the job alone: it reads publishes that are in Kafka already.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tests.bench.pipeline.consuming import CONSUMERS, Consuming, consume_rate
from tests.bench.pipeline.figures import WARM_UP, Figures, Sizes, after_warm_up, us_per_message
from tests.bench.pipeline.perf_test import Load, PerfTestResult, run_perf_test
from tests.bench.pipeline.rabbitmq import RabbitMQ
from tests.bench.pipeline.traffic import (
    DEAD_LETTER_QUEUE,
    Attributes,
    Death,
    Shape,
    declarations,
    run_publisher,
)
from tests.bench.processes import PARTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.pipeline.environment import BenchEnvironment, RunningJob

QUEUES: Final = 10
WARMED_UP_FROM: Final = 100_000
"""Messages; runs with fewer are no measurements."""

DEATHS: Final[tuple[Death, ...]] = ("ttl", "length")
COMPARED: Final[tuple[Attributes, ...]] = ("plain", "ids")


def versus(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare dead-lettering and consuming with RabbitMQ."""
    with RabbitMQ(environment.root / "rabbitmq", environment.amqp) as rabbitmq:
        if rabbitmq.pid is not None:
            environment.known_processes[rabbitmq.pid] = "rabbitmq"
        if sizes.messages >= WARMED_UP_FROM:
            _warm_up(environment, sizes)
        for death in DEATHS:
            for attributes in COMPARED:
                shape = Shape(QUEUES, 1_000, _max_length(sizes), death, attributes)
                name = f"versus_{death}_{attributes}"
                theirs = _dead_lettering(rabbitmq, environment, name, shape, sizes.messages)
                yield _line(name, rabbitmq, theirs, _job_rates(environment, name, shape, sizes))
        for queues, prefetch in itertools.product((1, QUEUES), (0, 2_000)):
            name = f"versus_consume_{queues}_{prefetch or 'unlimited'}"
            kind = Consuming(queues, prefetch, sizes.consumed)
            theirs = consuming_from(rabbitmq, environment.root / name / "perf_test", kind)
            found = consume_rate(environment, name, kind)
            ours = {"ours_per_s": found.rate, **us_per_message(found.cores, found.rate)}
            yield _line(name, rabbitmq, theirs, ours)
    environment.known_processes.pop(rabbitmq.pid or 0, None)


def _warm_up(environment: BenchEnvironment, sizes: Sizes) -> None:
    """Let a job dead-letter first: Spark's JVM compiles most in its first minute."""
    few = dataclasses.replace(sizes, messages=sizes.messages // 2)
    _job_rates(environment, "versus_warm_up", Shape(QUEUES, 1_000, _max_length(few)), few)


def _max_length(sizes: Sizes) -> int:
    return max(10, min(1_000, sizes.messages // 200))


def _line(name: str, rabbitmq: RabbitMQ, theirs: PerfTestResult, ours: dict[str, float]) -> Figures:
    """One line: ours, theirs, the ratio, and the processor time of all parts."""
    rates = {key: value for key, value in ours.items() if key.endswith("_per_s")}
    parts = tuple(f"{part}_us" for part in PARTS)
    return {
        "case": name,
        "ours_per_s": round(ours["ours_per_s"]),
        "theirs_per_s": round(theirs.rate),
        "ratio": round(ours["ours_per_s"] / theirs.rate, 2),
        **{
            key: figure
            for name, rate in rates.items()
            if name != "ours_per_s"
            for key, figure in (
                (name, round(rate)),
                (name.replace("per_s", "ratio"), round(rate / theirs.rate, 2)),
            )
        },
        **{part: ours[part] for part in parts},
        **us_per_message(theirs.cores, theirs.rate),
        "rabbitmq": rabbitmq.version,
    }


def _dead_lettering(
    rabbitmq: RabbitMQ, environment: BenchEnvironment, name: str, shape: Shape, messages: int
) -> PerfTestResult:
    """Publish with confirms to RabbitMQ until all that must die lies in the dead-letter queue."""
    commands = declarations(shape)
    load = Load(("w", shape.queues), messages, shape.attributes, producers=shape.queues)
    with rabbitmq.declared(commands):
        return run_perf_test(
            rabbitmq,
            environment.root / name / "perf_test",
            load,
            lambda: _deaths(shape, load.total) - rabbitmq.ready(DEAD_LETTER_QUEUE),
        )


def consuming_from(
    rabbitmq: RabbitMQ, root: Path, kind: Consuming, known: Mapping[int, str] | None = None
) -> PerfTestResult:
    """Publish with confirms to RabbitMQ and acknowledge everything.

    Args:
        known: see `run_perf_test`.
    """
    names = [f"q{number}" for number in range(kind.queues)]
    commands: list[dict[str, Any]] = [
        {"op": "declare_exchange", "exchange": {"name": "orders", "type": "direct"}},
        *({"op": "declare_queue", "queue": {"name": name}} for name in names),
        *(
            {"op": "bind", "binding": {"source": "orders", "destination": q, "routing_key": q}}
            for q in names
        ),
    ]
    clients = max(kind.queues, CONSUMERS)
    load = Load(("q", kind.queues), kind.messages, "ids", clients, clients, kind.prefetch)
    with rabbitmq.declared(commands):
        return run_perf_test(rabbitmq, root, load, known=known)


def _job_rates(
    environment: BenchEnvironment, name: str, shape: Shape, sizes: Sizes
) -> dict[str, float]:
    """Run the job on a log that is full at first, then beside a publisher.

    Returns:
        Messages per second of both, and the processor time of the second in parts.
    """
    lanes = environment.cores
    full = sizes.messages + WARM_UP * sizes.batch
    environment.traffic.create_topic(name, lanes)
    environment.declare(name, declarations(shape), lanes)
    environment.traffic.publish(name, shape, full, lanes)
    config = environment.config(name, name, lanes=lanes, batch_rows=sizes.batch)
    with environment.job(config) as job:
        _wait(job, shape, full)
        start_s, counted = after_warm_up(job.batches, WARM_UP * sizes.batch)
        read = sum(each.publishes for each in counted)
        from_log = read / (counted[-1].at_s - start_s)
        numbers = (sizes.messages, lanes, full)
        start_s = _publish_beside(environment, job, name, shape, numbers)
        ended_s = job.batches[-1].at_s
    rate = sizes.messages / (ended_s - start_s)
    cores = job.cpu.cores(start_s, ended_s)
    return {"ours_per_s": rate, "from_log_per_s": from_log, **us_per_message(cores, rate)}


def _publish_beside(
    environment: BenchEnvironment,
    job: RunningJob,
    topic: str,
    shape: Shape,
    numbers: tuple[int, int, int],
) -> float:
    """Publish from another process, wait until the job is done, and return when it began."""
    count, _partitions, first = numbers
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    publisher = context.Process(
        target=run_publisher,
        args=(environment.servers, topic, shape, numbers, theirs),
        daemon=True,
    )
    publisher.start()
    job.wait_until(lambda: mine.poll(0))
    mine.recv()
    mine.send(None)
    _wait(job, shape, first + count)
    publisher.join()
    started_s: float = mine.recv()
    return started_s


def _wait(job: RunningJob, shape: Shape, published: int) -> None:
    deaths = _deaths(shape, published)
    job.wait_until(lambda: job.published >= published and job.died >= deaths)


def _deaths(shape: Shape, published: int) -> int:
    """Return how many messages die: all but those that the limits allow to stay."""
    return published - shape.kept
