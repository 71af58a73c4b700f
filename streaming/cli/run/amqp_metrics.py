"""The metrics of `dlx amqp`, on a port beside it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from streaming.cli.run.amqp_ports import PortBeside, do_without

if TYPE_CHECKING:
    from streaming.amqp.server import Server
    from streaming.front_metrics.service import FrontMetrics
    from streaming.management.counting import Counting
    from streaming.sequencer.log_state import LogState


WHAT = "metrics"


def serve_metrics(
    server: "Server",
    where: PortBeside | None,
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
        CannotServeError: they were asked for, and cannot be served.
    """
    if where is None:
        return None
    try:
        from streaming.front_metrics.service import MAX_SERIES, FrontMetrics
        from streaming.listening import ListenError, host_and_port
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        do_without(where, WHAT, "they need the extra amqp: pip install 'dlx-stream[amqp]'")
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
        do_without(where, WHAT, str(error))
        return None
    print(f"metrics at http://{host_and_port(where.host, port)}/metrics", flush=True)
    return metrics
