"""The HTTP server of a job: metrics for Prometheus, and health checks.

It runs on threads of its own. A response that fails is an HTTP error, never a failure of the job.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import getfqdn, gethostname
from typing import Final
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import choose_encoder

from streaming.listening import family_of, listen_error
from streaming.metrics.bounded_server import BoundedServer
from streaming.metrics.collector import Collected, UnknownFamilyError, collect
from streaming.metrics.figures import JobFigures
from streaming.metrics.health import Health, Verdict
from streaming.metrics.hosts import is_known_host

PATHS: Final = ("/metrics", "/metrics/per-object", "/metrics/detailed", "/healthz", "/readyz")
REQUEST_TIMEOUT_S: Final = 20
TEXT: Final = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class MetricsServer:
    """Answers from the moment it is created; `start` begins to serve.

    Args:
        hosts: more names of hosts in requests that are answered.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """

    def __init__(
        self,
        host: str,
        port: int,
        figures: JobFigures,
        health: Health,
        max_series: int,
        hosts: Sequence[str] = (),
    ) -> None:
        names = frozenset(one.lower() for one in (host, gethostname(), getfqdn(), *hosts))
        members = {"figures": figures, "health": health, "most": max_series, "names": names}
        handler = type("Handler", (_Handler,), members)
        server = type(
            "Server",
            (BoundedServer,),
            {"address_family": family_of(host)},
        )
        try:
            self._server: BoundedServer = server((host, port), handler)
        except OSError as error:
            raise listen_error("metrics.listen", host, port, error) from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics-server", daemon=True
        )

    def start(self) -> None:
        """Serve on a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Release the address."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: BoundedServer
    figures: JobFigures
    health: Health
    most: int
    names: frozenset[str]
    timeout = REQUEST_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "dlx"
    sys_version = ""

    def handle_one_request(self) -> None:
        """Answer a request; until it is there, another client may take this one's place."""
        super().handle_one_request()
        self.server.waits(self.request)

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.answers(self.request)
        if not is_known_host(self.headers.get("Host"), self.names):
            what = b"this server does not answer for the host: name it in metrics.hosts\n"
            self._send(HTTPStatus.MISDIRECTED_REQUEST, TEXT, what)
            return
        address = urlsplit(self.path)
        asked = parse_qs(address.query, keep_blank_values=True)
        routes: Mapping[str, Callable[[Mapping[str, list[str]]], None]] = {
            "/metrics": lambda _asked: self._metrics("aggregated", {}),
            "/metrics/per-object": lambda _asked: self._metrics("per-object", {}),
            "/metrics/detailed": lambda asked: self._metrics("detailed", asked),
            "/healthz": lambda _asked: self._verdict(self.health.alive()),
            "/readyz": lambda _asked: self._verdict(self.health.ready()),
        }
        route = routes.get(address.path.rstrip("/"))
        if route is None:
            self._send(HTTPStatus.NOT_FOUND, TEXT, f"there is: {' '.join(PATHS)}\n".encode())
            return
        try:
            route(asked)
        except UnknownFamilyError as error:
            self._send(HTTPStatus.BAD_REQUEST, TEXT, f"{error}\n".encode())
        except ConnectionError:  # the client has gone
            self.close_connection = True
        except Exception:
            logger.exception("metrics: %s could not be answered", address.path)
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"see the log of the job\n")

    do_HEAD = do_GET  # noqa: N815 - the base class calls it

    def _metrics(self, endpoint: str, asked: Mapping[str, list[str]]) -> None:
        metrics = collect(
            self.figures,
            endpoint,
            self.most,
            families=asked.get("family", []),
            vhosts=asked.get("vhost"),
        )
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        self._send(HTTPStatus.OK, content_type, encode(Collected(metrics)))

    def _verdict(self, verdict: Verdict) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if verdict.fault else HTTPStatus.OK
        self._send(status, TEXT, f"{verdict.fault or 'ok'}\n".encode())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, _format: str, *_arguments: object) -> None:
        """Log nothing: Prometheus asks every few seconds."""
