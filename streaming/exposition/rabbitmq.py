"""The families that RabbitMQ has as well, with its names and labels.

Its dashboards join everything with `rabbitmq_identity_info`, and take rates of counters that are
0 until something happens. So each family has a series from the first response on. The job and the
AMQP front share what is here; what differs between them is an argument.
"""

import math
import os
import platform
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from streaming.exposition.families import (
    F,
    Family,
    Form,
    Queue,
    Sample,
    Scrape,
    by_queue,
    events_of_queue,
    of_queue,
    single,
    total,
)
from streaming.program_version import program_version

DEATH_REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit")

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def about(of: str, name: Callable[[F], str], started_s: Callable[[F], float]) -> list[Family[F]]:
    """Who answers.

    Args:
        of: what it is, in words.
        name: of it; RabbitMQ's dashboards call it the cluster.
        started_s: when it started, epoch seconds.
    """

    def identity(view: Scrape[F]) -> Iterator[Sample]:
        cluster = name(view.figures)
        yield (f"dlx@{socket.gethostname()}", cluster, cluster, view.endpoint), 1

    def build(_view: Scrape[F]) -> Iterator[Sample]:
        client = version("prometheus-client")
        yield (program_version(), "dlx-stream", platform.python_version(), "none", client), 1

    return [
        Family(
            "rabbitmq_identity_info",
            "gauge",
            f"Name of the {of}: RabbitMQ's dashboards join everything with it.",
            (
                *("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"),
                "rabbitmq_endpoint",
            ),
            identity,
        ),
        Family(
            "rabbitmq_build_info",
            "gauge",
            "Versions of dlx-stream and Python; the latter in the place of Erlang's.",
            (
                *("rabbitmq_version", "product_name", "erlang_version"),
                *("prometheus_plugin_version", "prometheus_client_version"),
            ),
            build,
        ),
        plain(
            "rabbitmq_erlang_uptime_seconds",
            "gauge",
            f"How long the {of} has been running; named as RabbitMQ's dashboards expect.",
            single(lambda figures: max(time.time() - started_s(figures), 0)),
        ),
        plain(
            "process_start_time_seconds",
            "gauge",
            f"When the {of} started, seconds since 1970.",
            single(started_s),
        ),
        plain(
            "rabbitmq_unreachable_cluster_peers_count",
            "gauge",
            f"0: the {of} has no cluster peers, as one node.",
            single(lambda _figures: 0),
        ),
    ]


def plain(
    name: str, form: Form, text: str, read: Callable[[Scrape[F]], Iterator[Sample]], *detailed: str
) -> Family[F]:
    """A family without labels."""
    return Family(name, form, text, (), read, detailed=detailed)


def process_bytes() -> float:
    """The memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * _PAGE_BYTES
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes if sys.platform == "darwin" else kilobytes * 1024


def _open_files(_figures: F) -> float | None:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else None


def files(of: str) -> list[Family[F]]:
    """The open files of the process."""
    return [
        plain(
            "rabbitmq_process_open_fds",
            "gauge",
            f"Open files of the {of}.",
            single(_open_files),
            "node_coarse_metrics",
        ),
        plain(
            "rabbitmq_process_max_fds",
            "gauge",
            f"The most open files of the {of}.",
            single(lambda _figures: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
            "node_metrics",
        ),
    ]


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

_OWN_GETS: Final = """
published | published | Messages that a publish brought into a queue.
delivered_ack | consume_manual | Messages handed to consumers with manual acknowledgement.
delivered | consume_auto | Messages handed to consumers with automatic acknowledgement.
redelivered | redelivered | Messages handed out after they had been requeued.
acked | acked | Messages acknowledged.
"""
"""The same where gets are told from consumers."""

_GETS: Final = """
get_ack | get_manual | Messages that gets fetched with manual acknowledgement.
get | get_auto | Messages that gets fetched with automatic acknowledgement.
get_empty | get_empty | Gets on an empty queue.
"""
"""Name | kind | help."""

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


def queues(*, tells_gets: bool) -> list[Family[F]]:
    """One series per queue, or one for all.

    Args:
        tells_gets: whether the counts of a queue tell gets from consumers.
    """
    table = _OWN_GETS if tells_gets else _QUEUE_COUNTERS
    gauges: list[Family[F]] = [
        _queue(f"rabbitmq_queue_{name}", "gauge", text, of_queue(what), *detailed.split())
        for name, what, detailed, text in _rows(_QUEUE_GAUGES)
    ]
    counters: list[Family[F]] = [
        _queue(
            f"rabbitmq_queue_{name}_total",
            "counter",
            text,
            events_of_queue(kind),
            "queue_delivery_metrics",
        )
        for name, kind, text in (
            *((f"messages_{name}", *rest) for name, *rest in _rows(table)),
            *(_rows(_GETS) if tells_gets else ()),
        )
    ]
    return gauges + counters


def capacity(able: Callable[[F, Queue], float]) -> list[Family[F]]:
    """Whether the consumers of each queue could take a message now."""
    text = "1 if a consumer of the queue could take a message now, else 0."

    return [
        _queue(f"rabbitmq_queue_consumer_{name}", "gauge", text, by_queue(able), "queue_metrics")
        for name in ("capacity", "utilisation")
    ]


def heads(found: Callable[[F], Mapping[Queue, float | None]]) -> Family[F]:
    """When the first message of each queue was made, as its publisher says.

    Args:
        found: seconds since 1970; None: not known.
    """

    def read(view: Scrape[F]) -> Iterator[Sample]:
        for queue in view.queues if view.endpoint != "aggregated" else ():
            value = found(view.figures).get(queue)
            yield queue, math.nan if value is None else value

    return _queue(
        "rabbitmq_queue_head_message_timestamp",
        "gauge",
        "Property timestamp of a queue's first ready message; NaN without one. By queue alone.",
        read,
        "queue_metrics",
    )


def _queue(
    name: str, form: Form, text: str, read: Callable[[Scrape[F]], Iterator[Sample]], *detailed: str
) -> Family[F]:
    return Family(name, form, text, ("vhost", "queue"), read, by_queue=True, detailed=detailed)


def messages(protocol: str) -> list[Family[F]]:
    """Totals of all vhosts, with the label `protocol`."""
    found: list[Family[F]] = [
        _global(protocol, name, counts, text) for name, counts, text in _rows(_GLOBAL_COUNTERS)
    ]
    return found + [
        _global(
            protocol,
            f"dead_lettered_{reason}",
            f"died.{reason}",
            f"Messages that died with the reason {reason}.",
        )
        for reason in DEATH_REASONS
    ]


def _global(protocol: str, name: str, counts: str, text: str) -> Family[F]:
    everything: Callable[[Scrape[F]], Iterator[Sample]] = total(*counts.split())

    def read(view: Scrape[F]) -> Iterator[Sample]:
        for _, value in everything(view):
            yield (protocol,), value

    return Family(f"rabbitmq_global_messages_{name}_total", "counter", text, ("protocol",), read)


def users_of_queues(
    protocol: str, publishers: Callable[[F], float], text: str
) -> tuple[Family[F], Family[F]]:
    """Consumers and publishers, with the label `protocol`.

    Args:
        text: what a publisher is.
    """

    def consumers(view: Scrape[F]) -> Iterator[Sample]:
        for _, value in _consumers(view):
            yield (protocol,), value

    def publishing(view: Scrape[F]) -> Iterator[Sample]:
        yield (protocol,), publishers(view.figures)

    return (
        Family("rabbitmq_global_consumers", "gauge", "Consumers.", ("protocol",), consumers),
        Family(
            "rabbitmq_global_publishers",
            "gauge",
            text,
            ("protocol",),
            publishing,
        ),
    )


def _consumers(view: Scrape[F]) -> Iterator[Sample]:
    everything: Callable[[Scrape[F]], Iterator[Sample]] = of_queue("consumers")
    return everything(view._replace(endpoint="aggregated"))


def channels() -> list[Family[F]]:
    """What channels did, added up, and the consumers."""
    found: list[Family[F]] = [
        plain(f"rabbitmq_channel_{name}_total", "counter", text, total(count))
        for name, count, text in _rows(_CHANNEL_COUNTERS)
    ]
    names = ("rabbitmq_channel_consumers", "rabbitmq_consumers")
    return found + [plain(name, "gauge", "Consumers.", _consumers) for name in names]


def exchanges(published: Callable[[F], Mapping[tuple[str, str], int]]) -> Family[F]:
    """What was published to each exchange.

    Args:
        published: how much, by vhost and exchange.
    """
    everything: Callable[[Scrape[F]], Iterator[Sample]] = total("received")

    def read(view: Scrape[F]) -> Iterator[Sample]:
        if view.endpoint == "aggregated":
            yield from everything(view)
            return
        for exchange, count in published(view.figures).items():
            if view.shows(exchange[0]):
                yield exchange, count

    return Family(
        "rabbitmq_exchange_messages_published_total",
        "counter",
        "Messages published to an exchange.",
        ("vhost", "exchange"),
        read,
        adds_up=True,
        detailed=("exchange_metrics",),
        share=0.05,
    )


def bindings(bound: Callable[[F], Mapping[tuple[str, str], tuple[str, int]]]) -> list[Family[F]]:
    """The exchanges and their bindings, in a detailed view alone, as in RabbitMQ.

    Args:
        bound: type and number of bindings, by vhost and exchange.
    """

    def family(name: str, detailed: str, text: str, read: Callable[[int], int]) -> Family[F]:
        def samples(view: Scrape[F]) -> Iterator[Sample]:
            if view.endpoint != "detailed":
                return
            for (vhost, exchange), (type_, count) in bound(view.figures).items():
                if view.shows(vhost):
                    yield (vhost, exchange, type_), read(count)

        return Family(
            f"rabbitmq_cluster_exchange_{name}",
            "gauge",
            text,
            ("vhost", "exchange", "type"),
            samples,
            detailed=(detailed,),
            share=0.05,
        )

    return [
        family("name", "exchange_names", "Exchanges: 1; in a detailed view.", lambda _count: 1),
        family(
            "bindings",
            "exchange_bindings",
            "Bindings that leave an exchange; in a detailed view.",
            lambda count: count,
        ),
    ]


def logins(protocol: str, counts: Callable[[F], tuple[int, int]]) -> list[Family[F]]:
    """Logins of clients, with the label `protocol`.

    Args:
        counts: how many there were, and how many were refused.
    """

    def family(name: str, text: str, read: Callable[[tuple[int, int]], int]) -> Family[F]:
        def samples(view: Scrape[F]) -> Iterator[Sample]:
            yield (protocol,), read(counts(view.figures))

        return Family(
            f"rabbitmq_auth_attempts{name}_total",
            "counter",
            text,
            ("protocol",),
            samples,
            detailed=("auth_attempt_metrics",),
        )

    return [
        family("", "Logins of clients.", lambda both: both[0]),
        family("_succeeded", "Logins that succeeded.", lambda both: both[0] - both[1]),
        family("_failed", "Logins that were refused.", lambda both: both[1]),
    ]


def objects(
    connections: Callable[[F], float], channels: Callable[[F], float], text: str
) -> list[Family[F]]:
    """How many there are.

    Args:
        text: what a connection is.
    """
    return [
        plain("rabbitmq_connections", "gauge", text, single(connections)),
        plain("rabbitmq_channels", "gauge", "Open channels.", single(channels)),
        plain("rabbitmq_queues", "gauge", "Queues.", single(lambda figures: len(figures.queues))),
    ]


def churn(texts: Mapping[str, str] = MappingProxyType({})) -> list[Family[F]]:
    """What came and went.

    Args:
        texts: of counters that count something else.
    """
    return [
        plain(
            f"rabbitmq_{name}_total",
            "counter",
            texts.get(name, text),
            total(name),
            "connection_churn_metrics",
        )
        for name, text in _rows(_CHURN)
    ]


def vhosts(of: str, names: Callable[[F], list[str]]) -> Family[F]:
    """The vhosts that are served."""

    def read(view: Scrape[F]) -> Iterator[Sample]:
        for vhost in names(view.figures):
            if view.shows(vhost):
                yield (vhost,), 1

    return Family(
        "rabbitmq_cluster_vhost_status",
        "gauge",
        f"Vhosts that the {of} serves: 1.",
        ("vhost",),
        read,
        detailed=("vhost_status",),
        share=0.05,
    )


def left_out() -> list[Family[F]]:
    """What a response says about itself."""

    def queues_left_out(view: Scrape[F]) -> Iterator[Sample]:
        yield (), view.queues_left_out

    def series_left_out(view: Scrape[F]) -> Iterator[Sample]:
        for name, number in view.left_out.items():
            yield (name,), number

    return [
        Family(
            "dlx_metrics_queues_left_out",
            "gauge",
            "Queues that this response leaves out because of metrics.max_series.",
            (),
            queues_left_out,
        ),
        Family(
            "dlx_metrics_series_left_out",
            "gauge",
            "Series of a family that this response leaves out because of metrics.max_series.",
            ("family",),
            series_left_out,
        ),
    ]
