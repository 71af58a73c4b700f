"""An S3-compatible server on this machine, in a process of its own: to try a cluster, and to test.

    with ObjectStoreServer() as server:
        server.make_bucket("dlx")
        ... server.options: what deltalake and obstore take; server.hadoop_properties: Spark

moto answers; it keeps all objects in memory, and they are gone when the server ends. The server
ends with the process that started it. It needs the extra `s3-server`.

Conditional writes are atomic: changes run one at a time. The server counts requests and bytes.
"""

import http.client
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any, Final, Self

from streaming.embedded.errors import EmbeddedError

ACCESS_KEY: Final = "dlx"
SECRET_KEY: Final = "dlx-local-store"  # noqa: S105 (the server accepts any)
REGION: Final = "us-east-1"
HOST: Final = "127.0.0.1"

_COUNTS: Final = "/_dlx/counts"
_CHANGES: Final = frozenset({"PUT", "POST", "DELETE"})


class ObjectStoreServer:
    """Starts the server; `stop` ends it.

    Args:
        port: where it listens; 0: any free port.

    Attributes:
        process: the server's process.
        endpoint: its address, `http://127.0.0.1:PORT`.

    Raises:
        EmbeddedError: the extra is not installed, or the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        if find_spec("moto") is None or find_spec("flask") is None:
            raise EmbeddedError(
                "the S3-compatible server is not installed: pip install 'dlx-stream[s3-server]'"
            )
        self.process = subprocess.Popen(  # noqa: S603 (this very module)
            [sys.executable, "-m", __name__, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        if not ready:
            self.stop()
            raise EmbeddedError(
                f"the S3-compatible server did not start: is port {port} taken? Name another one"
            )
        self.port = int(ready)
        self.endpoint = f"http://{HOST}:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The storage options of tables on it, as deltalake and obstore take them."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def hadoop_properties(self) -> dict[str, str]:
        """The Spark properties with which `s3a://` URLs lead to it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        }

    def make_bucket(self, name: str) -> None:
        """Create a bucket, unless it exists."""
        self._ask("PUT", f"/{name}")

    def counts(self) -> dict[str, int]:
        """Requests by method since the start, and `bytes_in` and `bytes_out` of their bodies."""
        counted: dict[str, int] = json.loads(self._ask("GET", _COUNTS))
        return counted

    def stop(self) -> None:
        """End the server; its objects are gone."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()


class _Counted:
    """A WSGI application in front of moto: counts, and lets changes happen one at a time."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._changing = threading.Lock()

    def __call__(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        method = environ["REQUEST_METHOD"]
        if environ["PATH_INFO"] == _COUNTS:
            with self._counting:
                body = json.dumps(self._counts).encode()
            respond("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        if method in _CHANGES:
            with self._changing:
                answer = b"".join(self._application(environ, respond))
        else:
            answer = b"".join(self._application(environ, respond))
        with self._counting:
            self._counts[method] += 1
            self._counts["bytes_in"] += int(environ.get("CONTENT_LENGTH") or 0)
            self._counts["bytes_out"] += len(answer) if method == "GET" else 0
        return [answer]


def serve(port: int) -> None:
    """Serve until standard input ends; write the port to standard output first."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 (slow, and only this process)
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open

        def handle_expect_100(self) -> bool:
            """Werkzeug says `100 Continue` itself; a client takes a second one for the answer."""
            return True

        def log(self, *_: Any, **__: Any) -> None:
            """Nobody reads a log line per request."""

    application = _Counted(DomainDispatcherApplication(create_backend_app))
    server = make_server(HOST, port, application, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)  # noqa: T201 (the process that started us reads it)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
