"""An HTTP server for Prometheus and health checks, on threads of its own.

It answers with functions that its owner gives it, one for each path. A response that fails is an
HTTP error, never a failure of the owner.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import getfqdn, gethostname
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from streaming.exposition.bounded_server import BoundedServer
from streaming.exposition.collector import Collected, UnknownFamilyError
from streaming.exposition.hosts import is_known_host
from streaming.listening import family_of, listen_error

PATHS: Final = ("/metrics", "/metrics/per-object", "/metrics/detailed", "/healthz", "/readyz")
REQUEST_TIMEOUT_S: Final = 20
TEXT: Final = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class Answers(NamedTuple):
    """Where the answers come from; each may be asked on any thread.

    Attributes:
        metrics: of an endpoint, with the families and the vhosts of a detailed response.
        alive, ready: why the owner is not; empty if it is.
    """

    metrics: Callable[[str, Sequence[str], Sequence[str] | None], list[Metric]]
    alive: Callable[[], str]
    ready: Callable[[], str]


class ExpositionServer:
    """Answers from the moment it is created; `start` begins to serve.

    Args:
        who: the setting or option that says where it listens.
        hosts: more names of hosts in requests that are answered.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """

    def __init__(
        self, who: str, host: str, port: int, answers: Answers, hosts: Sequence[str] = ()
    ) -> None:
        names = frozenset(one.lower() for one in (host, gethostname(), getfqdn(), *hosts))
        handler = type("Handler", (_Handler,), {"answered": answers, "names": names})
        server = type(
            "Server",
            (BoundedServer,),
            {"address_family": family_of(host)},
        )
        try:
            self._server: BoundedServer = server((host, port), handler)
        except OSError as error:
            raise listen_error(who, host, port, error) from None
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
    answered: Answers
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
            "/healthz": lambda _asked: self._verdict(self.answered.alive()),
            "/readyz": lambda _asked: self._verdict(self.answered.ready()),
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
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"see the log\n")

    do_HEAD = do_GET  # noqa: N815 - the base class calls it

    def _metrics(self, endpoint: str, asked: Mapping[str, list[str]]) -> None:
        metrics = self.answered.metrics(endpoint, asked.get("family", []), asked.get("vhost"))
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        self._send(HTTPStatus.OK, content_type, encode(Collected(metrics)))

    def _verdict(self, fault: str) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if fault else HTTPStatus.OK
        self._send(status, TEXT, f"{fault or 'ok'}\n".encode())

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
