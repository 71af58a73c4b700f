"""Messages per second on a Spark standalone cluster, by lanes and executors.

Each executor is a process of its own with one core. Driver, executors and Kafka share this machine,
so the rate cannot grow beyond it; the processor time of a message shows what more machines cost.
A first job on each cluster is not measured: JVMs compile their code meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.embedded.spark_cluster import SparkCluster
from tests.bench.pipeline.cases import job_rate
from tests.bench.pipeline.environment import BenchEnvironment
from tests.bench.pipeline.figures import WARM_UP, Figures, Sizes
from tests.bench.pipeline.traffic import Shape, declarations

LANES: Final = (1, 2, 4)
EXECUTORS: Final = (1, 2)
PARTS: Final = ("driver_us", "workers_us", "spark_us", "kafka_us")
TOPIC: Final = "scale"
WARM_UP_JOB: Final = "warm_up"


def cluster_rates(folder: Path, messages: int, batch: int) -> Iterator[Figures]:
    """Measure every number of lanes on every number of executors."""
    first_us = 0.0
    for executors in EXECUTORS:
        root = folder / f"executors_{executors}"
        with (
            SparkCluster(root / "spark", workers=executors) as cluster,
            BenchEnvironment(root, master=cluster.master, partitions=max(LANES)) as environment,
        ):
            for figures in _rates(environment, messages, batch):
                cost_us = sum(figures.get(part, 0.0) for part in PARTS)
                first_us = first_us or cost_us
                yield {
                    "case": f"executors_{executors}_{figures.pop('case')}",
                    "messages_per_s": figures.pop("messages_per_s"),
                    "us_per_message": round(cost_us, 1),
                    "of_first": round(cost_us / first_us, 2),
                    **figures,
                }


def _rates(environment: BenchEnvironment, messages: int, batch: int) -> Iterator[Figures]:
    sizes = Sizes(messages=messages, batch=batch)
    shape = Shape(max_length=max(2 * max(LANES), min(1_000, batch // 200)))
    total = messages + WARM_UP * batch
    jobs = {WARM_UP_JOB: max(LANES), **{f"lanes_{lanes}": lanes for lanes in LANES}}
    environment.traffic.create_topic(TOPIC, max(LANES))
    for name, lanes in jobs.items():  # before the publishes, whose time is later then
        environment.declare(name, declarations(shape), lanes)
    environment.traffic.publish(TOPIC, shape, total, max(LANES))
    deaths = total - shape.queues * shape.max_length
    for name, lanes in jobs.items():
        rate, figures = job_rate(environment, sizes, name, TOPIC, lanes, (total, deaths))
        if name != WARM_UP_JOB:
            yield {"case": name, "messages_per_s": round(rate), **figures}
