"""An S3-compatible server on this machine, in a process of its own: to try a cluster, and to test.

    with ObjectStoreServer() as server:
        server.make_bucket("dlx")
        ... server.options: what deltalake and obstore take; server.hadoop_properties: Spark

moto answers; it keeps all objects in memory. With a folder, the server also writes each change
there, as FOLDER/BUCKET/KEY, and loads it when it starts again. The server ends with the process
that started it. It needs the extra `s3-server`.

Conditional writes are atomic: changes run one at a time. The server counts requests and bytes.
"""

import http.client
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote
from xml.etree import ElementTree as ET

from streaming.embedded.errors import EmbeddedError

if TYPE_CHECKING:
    from werkzeug.test import Client

ACCESS_KEY: Final = "dlx"
SECRET_KEY: Final = "dlx-local-store"  # noqa: S105 (the server accepts any)
REGION: Final = "us-east-1"
HOST: Final = "127.0.0.1"

_SIGNED: Final = {
    "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
}
"""Without a signature, which nobody checks, objects are private."""

_UNFINISHED: Final = ".unfinished"
_COUNTS: Final = "/_dlx/counts"
_CHANGES: Final = frozenset({"PUT", "POST", "DELETE"})


class ObjectStoreServer:
    """Starts the server; `stop` ends it.

    Args:
        port: where it listens; 0: any free port.
        folder: keeps the objects; None: they are gone when the server ends.

    Attributes:
        process: the server's process.
        endpoint: its address, `http://127.0.0.1:PORT`.

    Raises:
        EmbeddedError: the extra is not installed, or the port is taken.
    """

    def __init__(self, port: int = 0, folder: Path | None = None) -> None:
        if find_spec("moto") is None or find_spec("flask") is None:
            raise EmbeddedError(
                "the S3-compatible server is not installed: pip install 'dlx-stream[s3-server]'"
            )
        self.process = subprocess.Popen(  # noqa: S603 (this very module)
            [sys.executable, "-m", __name__, str(port), *([] if folder is None else [str(folder)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must not end it before the job that writes to it
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
    def pid(self) -> int:
        """The server's process id."""
        return self.process.pid

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

    def make_bucket(self, name: str) -> None:
        """Create a bucket, unless it exists."""
        self._ask("PUT", f"/{name}")

    def counts(self) -> dict[str, int]:
        """Requests by method since the start, and `bytes_in` and `bytes_out` of their bodies."""
        counted: dict[str, int] = json.loads(self._ask("GET", _COUNTS))
        return counted

    def stop(self) -> None:
        """End the server."""
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


class _Kept:
    """A copy of all objects in a folder.

    Args:
        client: asks the server for them, and gives it what the folder has.
    """

    def __init__(self, folder: Path, client: "Client") -> None:
        self._folder = folder.resolve()
        self._client = client

    def load(self) -> None:
        """Give the server what the folder has."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(self._folder.rglob("*")):  # a bucket precedes what it holds
            path = quote(f"/{file.relative_to(self._folder).as_posix()}")
            if file.is_file() and file.suffix != _UNFINISHED:
                self._client.put(path, data=file.read_bytes(), headers=_SIGNED)
            elif file.parent == self._folder:
                self._client.put(path, headers=_SIGNED)

    def follow(self, path: str, answer: bytes) -> None:
        """Copy what a request has changed.

        Args:
            path: of the request: a bucket, or an object.
            answer: names the objects that a request about the bucket has deleted.
        """
        for key in _deleted(answer) if path.count("/") < 2 else [""]:  # noqa: PLR2004
            name = f"{path.rstrip('/')}/{key}" if key else path
            target = (self._folder / name.lstrip("/")).resolve()
            if name.endswith("/") or self._folder not in target.parents:  # Hadoop marks folders
                continue
            found = self._client.get(quote(name), headers=_SIGNED)
            if found.status_code == http.HTTPStatus.OK:
                target.parent.mkdir(parents=True, exist_ok=True)
                hidden = target.with_name(f".{target.name}{_UNFINISHED}")
                hidden.write_bytes(found.data)
                hidden.replace(target)
            else:
                target.unlink(missing_ok=True)


def _deleted(answer: bytes) -> Iterator[str]:
    """The keys that an answer names as deleted; none if its request deleted nothing."""
    if b"<Deleted>" in answer:
        for element in ET.fromstring(answer).iter():  # noqa: S314 - moto's own answer
            if element.tag.endswith("}Key") or element.tag == "Key":
                yield element.text or ""


class _Counted:
    """A WSGI application in front of moto: counts, and lets changes happen one at a time."""

    def __init__(
        self, application: Callable[..., Iterable[bytes]], follow: Callable[[str, bytes], None]
    ) -> None:
        self._application = application
        self._follow = follow
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
                self._follow(environ["PATH_INFO"].encode("latin-1").decode(), answer)
        else:
            answer = b"".join(self._application(environ, respond))
        with self._counting:
            self._counts[method] += 1
            self._counts["bytes_in"] += int(environ.get("CONTENT_LENGTH") or 0)
            self._counts["bytes_out"] += len(answer) if method == "GET" else 0
        return [answer]


def serve(port: int, folder: Path | None = None) -> None:
    """Serve until standard input ends; write the port to standard output first."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 (slow, and only this process)
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415
    from werkzeug.test import Client  # noqa: PLC0415

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open

        def handle_expect_100(self) -> bool:
            """Werkzeug says `100 Continue` itself; a client takes a second one for the answer."""
            return True

        def log(self, *_: Any, **__: Any) -> None:
            """Nobody reads a log line per request."""

    moto = DomainDispatcherApplication(create_backend_app)
    follow: Callable[[str, bytes], None] = lambda _path, _answer: None  # noqa: E731
    if folder is not None:
        kept = _Kept(folder, Client(moto))
        kept.load()
        follow = kept.follow
    application = _Counted(moto, follow)
    server = make_server(HOST, port, application, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)  # noqa: T201 (the process that started us reads it)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *map(Path, sys.argv[2:]))
