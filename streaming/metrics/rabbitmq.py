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


def _global(*names: str) -> "_ByProtocol":
    return _ByProtocol(names)


class _ByProtocol:
    """Reads a total of all vhosts, with the label `protocol`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, view: Scrape) -> Iterator[Sample]:
        yield (PROTOCOL,), sum(view.figures.count(name) for name in self._names)


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


def _queue(name: str, form: str, text: str, read: object, *detailed: str) -> Family:
    return Family(name, form, text, ("vhost", "queue"), read, by_queue=True, detailed=detailed)  # type: ignore[arg-type]


def _counter(name: str, text: str, *kinds: str) -> Family:
    return Family(f"rabbitmq_global_{name}_total", "counter", text, ("protocol",), _global(*kinds))


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
    _queue(
        "rabbitmq_queue_messages_ready",
        "gauge",
        "Messages ready to be delivered.",
        of_queue("ready"),
        "queue_coarse_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_unacked",
        "gauge",
        "Messages delivered and not yet acknowledged.",
        of_queue("unacked"),
        "queue_coarse_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages",
        "gauge",
        "Ready and unacknowledged messages.",
        of_queue("ready+unacked"),
        "queue_coarse_metrics",
    ),
    _queue(
        "rabbitmq_queue_consumers",
        "gauge",
        "Consumers.",
        of_queue("consumers"),
        "queue_metrics",
        "queue_consumer_count",
    ),
    _queue(
        "rabbitmq_queue_messages_bytes",
        "gauge",
        "Size of the bodies of all messages.",
        of_queue("ready_bytes+unacked_bytes"),
        "queue_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_ready_bytes",
        "gauge",
        "Size of the bodies of ready messages.",
        of_queue("ready_bytes"),
        "queue_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_unacked_bytes",
        "gauge",
        "Size of the bodies of unacknowledged messages.",
        of_queue("unacked_bytes"),
        "queue_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_published_total",
        "counter",
        "Messages that a publish brought into a queue.",
        events_of_queue("published"),
        "queue_delivery_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_delivered_ack_total",
        "counter",
        "Messages handed out with manual acknowledgement, to consumers and gets.",
        events_of_queue("delivered"),
        "queue_delivery_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_delivered_total",
        "counter",
        "Messages handed out with automatic acknowledgement, to consumers and gets.",
        events_of_queue("consumed"),
        "queue_delivery_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_redelivered_total",
        "counter",
        "Messages handed out after they had been requeued.",
        events_of_queue("redelivered"),
        "queue_delivery_metrics",
    ),
    _queue(
        "rabbitmq_queue_messages_acked_total",
        "counter",
        "Messages acknowledged.",
        events_of_queue("acked"),
        "queue_delivery_metrics",
    ),
    _counter("messages_received", "Messages published.", "received"),
    _counter(
        "messages_received_confirm",
        "Messages published that ask for a confirm.",
        "received_confirm",
    ),
    _counter("messages_confirmed", "Messages confirmed to publishers.", "confirmed"),
    _counter("messages_routed", "Copies that publishes brought into queues.", "published"),
    _counter(
        "messages_unroutable_dropped",
        "Messages that reached no queue and were dropped.",
        "unroutable",
    ),
    _counter(
        "messages_unroutable_returned",
        "Messages that reached no queue and were returned.",
        "returned",
    ),
    _counter(
        "messages_delivered", "Messages handed out, to consumers and gets.", "delivered", "consumed"
    ),
    _counter(
        "messages_delivered_consume_manual_ack",
        "Messages delivered to consumers with manual acknowledgement.",
        "consume_manual",
    ),
    _counter(
        "messages_delivered_consume_auto_ack",
        "Messages delivered to consumers with automatic acknowledgement.",
        "consume_auto",
    ),
    _counter(
        "messages_delivered_get_manual_ack",
        "Messages that gets fetched with manual acknowledgement.",
        "get_manual",
    ),
    _counter(
        "messages_delivered_get_auto_ack",
        "Messages that gets fetched with automatic acknowledgement.",
        "get_auto",
    ),
    _counter("messages_get_empty", "Gets on an empty queue.", "get_empty"),
    _counter(
        "messages_redelivered", "Messages handed out after they had been requeued.", "redelivered"
    ),
    _counter("messages_acknowledged", "Messages acknowledged.", "acked"),
    *(
        _counter(
            f"messages_dead_lettered_{reason}",
            f"Messages that died with the reason {reason}.",
            f"died.{reason}",
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
    _job(
        "rabbitmq_channel_messages_published_total",
        "counter",
        "Messages published.",
        total("received"),
    ),
    _job(
        "rabbitmq_channel_messages_confirmed_total",
        "counter",
        "Messages confirmed to publishers.",
        total("confirmed"),
    ),
    _job(
        "rabbitmq_channel_messages_unroutable_dropped_total",
        "counter",
        "Messages that reached no queue and were dropped.",
        total("unroutable"),
    ),
    _job(
        "rabbitmq_channel_messages_unroutable_returned_total",
        "counter",
        "Messages that reached no queue and were returned.",
        total("returned"),
    ),
    _job(
        "rabbitmq_channel_messages_delivered_total",
        "counter",
        "Messages delivered to consumers with automatic acknowledgement.",
        total("consume_auto"),
    ),
    _job(
        "rabbitmq_channel_messages_delivered_ack_total",
        "counter",
        "Messages delivered to consumers with manual acknowledgement.",
        total("consume_manual"),
    ),
    _job(
        "rabbitmq_channel_messages_redelivered_total",
        "counter",
        "Messages handed out after they had been requeued.",
        total("redelivered"),
    ),
    _job(
        "rabbitmq_channel_messages_acked_total", "counter", "Messages acknowledged.", total("acked")
    ),
    _job(
        "rabbitmq_channel_get_total",
        "counter",
        "Messages that gets fetched with automatic acknowledgement.",
        total("get_auto"),
    ),
    _job(
        "rabbitmq_channel_get_ack_total",
        "counter",
        "Messages that gets fetched with manual acknowledgement.",
        total("get_manual"),
    ),
    _job(
        "rabbitmq_channel_get_empty_total", "counter", "Gets on an empty queue.", total("get_empty")
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
    _job(
        "rabbitmq_connections_opened_total",
        "counter",
        "Connections opened.",
        total("connections_opened"),
        "connection_churn_metrics",
    ),
    _job(
        "rabbitmq_connections_closed_total",
        "counter",
        "Connections closed.",
        total("connections_closed"),
        "connection_churn_metrics",
    ),
    _job("rabbitmq_channels", "gauge", "Open channels.", single(_channels)),
    _job(
        "rabbitmq_channels_opened_total",
        "counter",
        "Channels opened.",
        total("channels_opened"),
        "connection_churn_metrics",
    ),
    _job(
        "rabbitmq_channels_closed_total",
        "counter",
        "Channels closed.",
        total("channels_closed"),
        "connection_churn_metrics",
    ),
    _job("rabbitmq_queues", "gauge", "Queues.", single(lambda figures: len(figures.queues))),
    _job(
        "rabbitmq_queues_declared_total",
        "counter",
        "Declarations of queues, of existing ones too.",
        total("queues_declared"),
        "connection_churn_metrics",
    ),
    _job(
        "rabbitmq_queues_created_total",
        "counter",
        "Queues created.",
        total("queues_created"),
        "connection_churn_metrics",
    ),
    _job(
        "rabbitmq_queues_deleted_total",
        "counter",
        "Queues deleted.",
        total("queues_deleted"),
        "connection_churn_metrics",
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
