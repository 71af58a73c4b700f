"""The families that RabbitMQ has as well, with its names and labels.

Its dashboards join everything with `rabbitmq_identity_info`, and take rates of counters that are
0 until something happens. So each family has a series from the first response on.
"""

import os
import platform
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.metrics.families import (
    Distribution,
    Family,
    Sample,
    Scrape,
    events_of_queue,
    of_queue,
    single,
    total,
)
from streaming.metrics.figures import JobFigures
from streaming.pipeline.traffic import SIZE_BOUNDS
from streaming.program_version import program_version

PROTOCOL: Final = "kafka"
"""The label `protocol` of RabbitMQ's global counters: its clients come by AMQP, ours by Kafka."""

DEATH_REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit")

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def _identity(view: Scrape) -> Iterator[Sample]:
    name = view.figures.job_name
    yield (f"dlx@{socket.gethostname()}", name, name, view.endpoint), 1


def _build(_view: Scrape) -> Iterator[Sample]:
    yield (program_version(), "dlx-stream", platform.python_version(), "none"), 1


def _sizes(view: Scrape) -> Distribution:
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
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * _PAGE_BYTES
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes if sys.platform == "darwin" else kilobytes * 1024


def _open_files(_figures: JobFigures) -> float | None:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else None


def _free_disk(figures: JobFigures) -> float | None:
    return shutil.disk_usage(figures.disk_path).free if figures.disk_path else None


def _vhosts(view: Scrape) -> Iterator[Sample]:
    totals = view.figures.totals
    for vhost in [] if totals is None else list(totals.counts):
        if view.shows(vhost):
            yield (vhost,), 1


def _job(name: str, form: str, text: str, read: object, *detailed: str) -> Family:
    return Family(name, form, text, (), read, detailed=detailed)  # type: ignore[arg-type]


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each line of a table."""
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


_QUEUE_GAUGES: Final = """
messages_ready | ready | queue_coarse_metrics | Messages ready to be delivered.
messages_unacked | unacked | queue_coarse_metrics | Messages delivered and not yet acknowledged.
messages | ready+unacked | queue_coarse_metrics | Ready and unacknowledged messages.
consumers | consumers | queue_metrics queue_consumer_count | Consumers.
messages_bytes | ready_bytes+unacked_bytes | queue_metrics | Size of the bodies of all messages.
messages_ready_bytes | ready_bytes | queue_metrics | Size of the bodies of ready messages.
messages_unacked_bytes | unacked_bytes | queue_metrics | Size of the bodies of unacked messages.
"""
"""Name | attributes of `QueueOverview` | detailed families | help."""

_QUEUE_COUNTERS: Final = """
published | published | Messages that a publish brought into a queue.
delivered_ack | delivered | Messages handed out with manual acknowledgement, to consumers and gets.
delivered | consumed | Messages handed out with automatic acknowledgement, to consumers and gets.
redelivered | redelivered | Messages handed out after they had been requeued.
acked | acked | Messages acknowledged.
"""
"""Name | kind of event | help."""

_GLOBAL_COUNTERS: Final = """
received | received | Messages published.
received_confirm | received_confirm | Messages published that ask for a confirm.
confirmed | confirmed | Messages confirmed to publishers.
routed | published | Copies that publishes brought into queues.
unroutable_dropped | unroutable | Messages that reached no queue and were dropped.
unroutable_returned | returned | Messages that reached no queue and were returned.
delivered | delivered consumed | Messages handed out, to consumers and gets.
delivered_consume_manual_ack | consume_manual | Messages consumed with manual acknowledgement.
delivered_consume_auto_ack | consume_auto | Messages consumed with automatic acknowledgement.
delivered_get_manual_ack | get_manual | Messages that gets fetched with manual acknowledgement.
delivered_get_auto_ack | get_auto | Messages that gets fetched with automatic acknowledgement.
get_empty | get_empty | Gets on an empty queue.
redelivered | redelivered | Messages handed out after they had been requeued.
acknowledged | acked | Messages acknowledged.
"""
"""Name | counts | help."""

_CHANNEL_COUNTERS: Final = """
messages_published | received | Messages published.
messages_confirmed | confirmed | Messages confirmed to publishers.
messages_unroutable_dropped | unroutable | Messages that reached no queue and were dropped.
messages_unroutable_returned | returned | Messages that reached no queue and were returned.
messages_delivered | consume_auto | Messages delivered to consumers with automatic acknowledgement.
messages_delivered_ack | consume_manual | Messages consumed with manual acknowledgement.
messages_redelivered | redelivered | Messages handed out after they had been requeued.
messages_acked | acked | Messages acknowledged.
get | get_auto | Messages that gets fetched with automatic acknowledgement.
get_ack | get_manual | Messages that gets fetched with manual acknowledgement.
get_empty | get_empty | Gets on an empty queue.
"""
"""Name | count | help."""

_CHURN: Final = """
connections_opened | Connections opened.
connections_closed | Connections closed.
channels_opened | Channels opened.
channels_closed | Channels closed.
queues_declared | Declarations of queues, of existing ones too.
queues_created | Queues created.
queues_deleted | Queues deleted.
"""
"""Name, which is also the count | help."""


def _queue(name: str, form: str, text: str, read: object, *detailed: str) -> Family:
    return Family(name, form, text, ("vhost", "queue"), read, by_queue=True, detailed=detailed)  # type: ignore[arg-type]


def _global(name: str, counts: str, text: str) -> Family:
    """A total of all vhosts, with the label `protocol`."""
    everything = total(*counts.split())

    def read(view: Scrape) -> Iterator[Sample]:
        for _, value in everything(view):
            yield (PROTOCOL,), value

    return Family(f"rabbitmq_global_messages_{name}_total", "counter", text, ("protocol",), read)


RABBITMQ: Final[tuple[Family, ...]] = (
    Family(
        "rabbitmq_identity_info",
        "gauge",
        "Name of the job: RabbitMQ's dashboards join everything with it.",
        ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"),
        _identity,
    ),
    Family(
        "rabbitmq_build_info",
        "gauge",
        "Versions of dlx-stream and Python; the latter in the place of Erlang's.",
        ("rabbitmq_version", "product_name", "erlang_version", "prometheus_plugin_version"),
        _build,
    ),
    _job(
        "rabbitmq_erlang_uptime_seconds",
        "gauge",
        "How long the job has been running; named as RabbitMQ's dashboards expect.",
        single(lambda figures: max(time.time() - figures.started_s, 0)),
    ),
    *(
        _queue(f"rabbitmq_queue_{name}", "gauge", text, of_queue(what), *detailed.split())
        for name, what, detailed, text in _rows(_QUEUE_GAUGES)
    ),
    *(
        _queue(
            f"rabbitmq_queue_messages_{name}_total",
            "counter",
            text,
            events_of_queue(kind),
            "queue_delivery_metrics",
        )
        for name, kind, text in _rows(_QUEUE_COUNTERS)
    ),
    *(_global(name, counts, text) for name, counts, text in _rows(_GLOBAL_COUNTERS)),
    *(
        _global(
            f"dead_lettered_{reason}",
            f"died.{reason}",
            f"Messages that died with the reason {reason}.",
        )
        for reason in DEATH_REASONS
    ),
    Family(
        "rabbitmq_global_consumers",
        "gauge",
        "Consumers.",
        ("protocol",),
        lambda view: (
            ((PROTOCOL,), value) for _, value in of_queue("consumers")(_aggregated(view))
        ),
    ),
    Family(
        "rabbitmq_global_publishers",
        "gauge",
        "Open channels, less consumers.",
        ("protocol",),
        lambda view: iter([((PROTOCOL,), _publishers(view.figures))]),
    ),
    Family(
        "rabbitmq_message_size_bytes",
        "histogram",
        "Size of the bodies of published messages.",
        ("protocol",),
        lambda _view: (),
        histogram=_sizes,
    ),
    *(
        _job(f"rabbitmq_channel_{name}_total", "counter", text, total(count))
        for name, count, text in _rows(_CHANNEL_COUNTERS)
    ),
    _job(
        "rabbitmq_channel_consumers",
        "gauge",
        "Consumers.",
        lambda view: of_queue("consumers")(_aggregated(view)),
    ),
    _job(
        "rabbitmq_consumers",
        "gauge",
        "Consumers.",
        lambda view: of_queue("consumers")(_aggregated(view)),
    ),
    _job(
        "rabbitmq_connections",
        "gauge",
        "Users that have an open channel, by vhost: the connections of `dlx clients connections`.",
        single(_connections),
    ),
    _job("rabbitmq_channels", "gauge", "Open channels.", single(_channels)),
    _job("rabbitmq_queues", "gauge", "Queues.", single(lambda figures: len(figures.queues))),
    *(
        _job(f"rabbitmq_{name}_total", "counter", text, total(name), "connection_churn_metrics")
        for name, text in _rows(_CHURN)
    ),
    _job(
        "rabbitmq_resident_memory_limit_bytes",
        "gauge",
        "High mark of memory, above which publishes wait.",
        single(lambda figures: figures.memory_limit_bytes),
        "node_metrics",
    ),
    _job(
        "rabbitmq_process_resident_memory_bytes",
        "gauge",
        "Memory of the job's processes.",
        single(_process_bytes),
        "node_coarse_metrics",
    ),
    _job(
        "rabbitmq_disk_space_available_bytes",
        "gauge",
        "Free disk space where the checkpoint is.",
        single(_free_disk),
        "node_coarse_metrics",
    ),
    _job(
        "rabbitmq_process_open_fds",
        "gauge",
        "Open files of the driver.",
        single(_open_files),
        "node_coarse_metrics",
    ),
    _job(
        "rabbitmq_process_max_fds",
        "gauge",
        "The most open files of the driver.",
        single(lambda _figures: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        "node_metrics",
    ),
    Family(
        "rabbitmq_cluster_vhost_status",
        "gauge",
        "Vhosts that the job serves: 1.",
        ("vhost",),
        _vhosts,
        detailed=("vhost_status",),
        share=0.05,
    ),
)
"""RabbitMQ's families that have a meaning here."""


def _aggregated(view: Scrape) -> Scrape:
    return view._replace(endpoint="aggregated")
