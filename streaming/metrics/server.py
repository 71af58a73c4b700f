"""The HTTP server of a job: metrics for Prometheus, and health checks."""

from collections.abc import Sequence

from prometheus_client.core import Metric

from streaming.exposition.server import Answers, ExpositionServer
from streaming.metrics.collector import JOB
from streaming.metrics.figures import JobFigures
from streaming.metrics.health import Health


def job_server(
    host: str,
    port: int,
    figures: JobFigures,
    health: Health,
    max_series: int,
    hosts: Sequence[str] = (),
) -> ExpositionServer:
    """The server of a job; `start` begins to serve.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """

    def metrics(
        endpoint: str, families: Sequence[str], vhosts: Sequence[str] | None
    ) -> list[Metric]:
        return JOB.collect(figures, endpoint, max_series, families=families, vhosts=vhosts)

    answers = Answers(metrics, lambda: health.alive().fault, lambda: health.ready().fault)
    return ExpositionServer("metrics.listen", host, port, answers, hosts)
