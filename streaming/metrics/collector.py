"""Which families a response has, and how many of their series."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.metrics.families import Family, View
from streaming.metrics.figures import JobFigures
from streaming.metrics.own import OWN
from streaming.metrics.rabbitmq import RABBITMQ
from topology.errors import DlxError
from topology.suggestions import did_you_mean

FAMILIES: Final = (*RABBITMQ, *OWN)

ALWAYS: Final = ("rabbitmq_identity_info", "rabbitmq_build_info", "dlx_metrics_queues_left_out")
"""These are in a detailed view as well."""

DETAILED: Final = tuple(dict.fromkeys(name for one in FAMILIES for name in one.detailed))

NOT_HERE: Final = frozenset(
    {
        *("alarm_metrics", "auth_attempt_metrics", "auth_attempt_detailed_metrics"),
        *("channel_exchange_metrics", "channel_process_metrics", "channel_metrics"),
        *("channel_queue_metrics", "channel_queue_exchange_metrics", "connection_metrics"),
        *("connection_coarse_metrics", "exchange_bindings", "exchange_names", "exchange_metrics"),
        *("node_persister_metrics", "queue_exchange_metrics", "ra_metrics", "raft_metrics"),
        *("stream_consumer_metrics",),
    }
)
"""Families of RabbitMQ that have no meaning here; asking for them is not a mistake."""


class UnknownFamilyError(DlxError):
    """A family that neither dlx nor RabbitMQ has."""


class Collected(Collector):
    """Metrics in the form that prometheus-client encodes."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """See `Collector`."""
        return self._metrics


def collect(
    figures: JobFigures,
    endpoint: str,
    max_series: int,
    *,
    families: Sequence[str] = (),
    vhosts: Sequence[str] | None = None,
) -> list[Metric]:
    """Return the metrics of a response.

    Args:
        endpoint: `aggregated`, `per-object` or `detailed`.
        families: of a detailed response.
        vhosts: of a detailed response; None: all.

    Raises:
        UnknownFamilyError: there is no such family.
    """
    for name in families:
        if name not in DETAILED and name not in NOT_HERE:
            raise UnknownFamilyError(
                f"there is no family {name!r}{did_you_mean(name, DETAILED)}; there is: "
                f"{' '.join(DETAILED)}"
            )
    chosen = [one for one in FAMILIES if _is_wanted(one, endpoint, families)]
    every = [
        queue for queue in list(figures.queues) if vhosts is None or queue[0] in frozenset(vhosts)
    ]
    by_queue = sum(one.by_queue for one in chosen) if endpoint != "aggregated" else 0
    others = sum(not one.by_queue for one in chosen)
    room = max(max_series - others * 2, max_series // 2) // max(by_queue, 1)
    shown = every[:room] if by_queue else every
    figures.queues_left_out = len(every) - len(shown)
    view = View(figures, endpoint, shown, None if vhosts is None else frozenset(vhosts))
    metrics = []
    left = max_series
    for family in chosen:
        metric = family.metric(view)
        del metric.samples[max(left, 0) :]
        left -= len(metric.samples)
        metrics.append(metric)
    return metrics


def _is_wanted(family: Family, endpoint: str, families: Sequence[str]) -> bool:
    if endpoint != "detailed":
        return True
    return family.name in ALWAYS or any(name in families for name in family.detailed)
