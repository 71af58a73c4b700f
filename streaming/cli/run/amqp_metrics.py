"""The metrics of `dlx amqp`, on a port beside it."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streaming.amqp.server import Server
    from streaming.front_metrics.service import FrontMetrics
    from streaming.management.counting import Counting
    from streaming.sequencer.log_state import LogState


class MetricsPort(NamedTuple):
    """Where metrics are served.

    Attributes:
        port: 0 for any that is free.
        is_asked: whether somebody asked for this port: otherwise the front runs without metrics
            where it cannot be used, as beside another front.
        hosts: more names of hosts in requests that are answered.
    """

    host: str
    port: int
    is_asked: bool
    hosts: tuple[str, ...] = ()


class CannotServeMetricsError(Exception):
    """The port that was asked for cannot be used; stderr says why."""


def serve_metrics(
    server: "Server",
    where: MetricsPort | None,
    name: str,
    *,
    counting: "Counting | None" = None,
    logs: "Callable[[], Mapping[str, LogState]]" = dict,
    not_ready: Callable[[], str] = str,
    max_series: int | None = None,
) -> "FrontMetrics | None":
    """Serve the metrics of a front, and say where; None if it has none.

    Args:
        where: None for nowhere.
        name, counting, logs, not_ready, max_series: see `FrontMetrics`.

    Raises:
        CannotServeMetricsError: they were asked for, and cannot be served.
    """
    if where is None:
        return None
    try:
        from streaming.front_metrics.service import MAX_SERIES, FrontMetrics
        from streaming.listening import ListenError
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        _do_without(where, "they need the extra amqp: pip install 'dlx-stream[amqp]'")
        return None
    metrics = FrontMetrics(
        server,
        name,
        counting=counting,
        logs=logs,
        not_ready=not_ready,
        max_series=max_series or MAX_SERIES,
    )
    try:
        port = metrics.serve("--metrics", where.host, where.port, where.hosts)
    except ListenError as error:
        _do_without(where, str(error))
        return None
    print(f"metrics at http://{where.host}:{port}/metrics", flush=True)
    return metrics


def _do_without(where: MetricsPort, why: str) -> None:
    print(f"dlx amqp: no metrics: {why}", file=sys.stderr)
    if where.is_asked:
        raise CannotServeMetricsError
