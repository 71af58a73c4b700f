"""The families of a job that RabbitMQ has as well."""

import shutil
from collections.abc import Iterator
from typing import Final

from streaming.exposition import rabbitmq
from streaming.exposition.families import Distribution, Family, single
from streaming.exposition.rabbitmq import plain, process_bytes
from streaming.metrics.figures import JobFamily, JobFigures, JobScrape
from streaming.pipeline.traffic import SIZE_BOUNDS

PROTOCOL: Final = "kafka"
"""The label `protocol` of RabbitMQ's global counters: its clients come by AMQP, ours by Kafka."""


def _sizes(view: JobScrape) -> Distribution:
    reached, buckets = 0, []
    for index, bound in enumerate((*map(str, SIZE_BOUNDS), "+Inf")):
        reached += view.figures.count(f"size.{index}")
        buckets.append((bound, float(reached)))
    return (PROTOCOL,), buckets, view.figures.count("received_bytes")


def _channels(figures: JobFigures) -> float:
    totals = figures.totals
    return 0 if totals is None else sum(one.channels for one in list(totals.clients.values()))


def _connections(figures: JobFigures) -> float:
    totals = figures.totals
    if totals is None:
        return 0
    pairs = list(totals.clients.items())
    return len({(vhost, user) for (vhost, _lane), one in pairs for user in one.users})


def _publishers(figures: JobFigures) -> float:
    lanes = [lane for lanes in list(figures.queues.values()) for lane in list(lanes.values())]
    return max(_channels(figures) - sum(lane.consumers for lane in lanes), 0)


def _process_bytes(figures: JobFigures) -> float:
    if figures.gate is not None and figures.gate.process_bytes is not None:
        return figures.gate.process_bytes
    return process_bytes()


def _free_disk(figures: JobFigures) -> float | None:
    return shutil.disk_usage(figures.disk_path).free if figures.disk_path else None


def _vhosts(figures: JobFigures) -> list[str]:
    return [] if figures.totals is None else list(figures.totals.counts)


def _families() -> Iterator[JobFamily]:
    yield from rabbitmq.about(
        "job", lambda figures: figures.job_name, lambda figures: figures.started_s
    )
    yield from rabbitmq.queues(tells_gets=False)
    yield from rabbitmq.messages(PROTOCOL)
    yield from rabbitmq.users_of_queues(PROTOCOL, _publishers, "Open channels, less consumers.")
    yield Family(
        "rabbitmq_message_size_bytes",
        "histogram",
        "Size of the bodies of published messages.",
        ("protocol",),
        lambda _view: (),
        histogram=_sizes,
    )
    yield from rabbitmq.channels()
    yield from rabbitmq.objects(
        _connections,
        _channels,
        "Users that have an open channel, by vhost: the connections of `dlx clients connections`.",
    )
    yield from rabbitmq.churn()
    yield plain(
        "rabbitmq_resident_memory_limit_bytes",
        "gauge",
        "High mark of memory, above which publishes wait.",
        single(lambda figures: figures.memory_limit_bytes),
        "node_metrics",
    )
    yield plain(
        "rabbitmq_process_resident_memory_bytes",
        "gauge",
        "Memory of the job's processes.",
        single(_process_bytes),
        "node_coarse_metrics",
    )
    yield plain(
        "rabbitmq_disk_space_available_bytes",
        "gauge",
        "Free disk space where the checkpoint is.",
        single(_free_disk),
        "node_coarse_metrics",
    )
    yield from rabbitmq.files("driver")
    yield rabbitmq.vhosts("job", _vhosts)


RABBITMQ: Final[tuple[JobFamily, ...]] = tuple(_families())
"""RabbitMQ's families that have a meaning here."""
