"""The HTTP server of a job: metrics for Prometheus, and health checks.

It runs on threads of its own. A response that fails is an HTTP error, never a failure of the job.
"""

import errno
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import choose_encoder

from streaming.metrics.collector import Collected, UnknownFamilyError, collect
from streaming.metrics.figures import JobFigures
from streaming.metrics.health import Health, Verdict
from topology.errors import DlxError

PATHS: Final = ("/metrics", "/metrics/per-object", "/metrics/detailed", "/healthz", "/readyz")
REQUEST_TIMEOUT_S: Final = 30
TEXT: Final = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class ListenError(DlxError):
    """The address of the metrics server cannot be used."""

    help_code = "listen"


class MetricsServer:
    """Answers from the moment it is created; `start` begins to serve.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """

    def __init__(
        self, host: str, port: int, figures: JobFigures, health: Health, max_series: int
    ) -> None:
        handler = type(
            "Handler", (_Handler,), {"figures": figures, "health": health, "most": max_series}
        )
        server = type(
            "Server",
            (_Server,),
            {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET},
        )
        try:
            self._server: ThreadingHTTPServer = server((host, port), handler)
        except OSError as error:
            remedy = (
                "stop the program that uses it, or set another one"
                if error.errno == errno.EADDRINUSE
                else "set one of this machine"
            )
            raise ListenError(
                f"metrics.listen: cannot listen on {host}:{port}: {error.strerror or error}; "
                f"{remedy}"
            ) from None
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, _request: object, client_address: object) -> None:
        """Log what the base class would print."""
        logger.debug("a request of %s failed", client_address)


class _Handler(BaseHTTPRequestHandler):
    figures: JobFigures
    health: Health
    most: int
    timeout = REQUEST_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "dlx"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
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
