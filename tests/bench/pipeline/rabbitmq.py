"""The RabbitMQ that `versus` compares with: one given by its URL, or the installed server.

The installed server runs as a node of its own: own name, ports, folder and epmd. It ends with the
benchmark, however the benchmark ends.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import pika
import psutil
from pika.exceptions import AMQPError

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.kafka.ports import LOCAL_HOSTS, LOOPBACK, free_port
from tests.bench.processes import Supervised

PROGRAMS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
"""Debian's wrapper in the PATH changes the user; the program behind it does not."""

START_TIMEOUT_S: Final = 120
_POLL_S: Final = 0.2
_USER: Final = "guest:guest"


def find_rabbitmq() -> str:
    """Return the path of the installed server.

    Raises:
        EmbeddedError: there is none.
    """
    for program in PROGRAMS:
        found = shutil.which(program)
        if found is not None:
            return found
    raise EmbeddedError(
        "case versus needs a RabbitMQ, and rabbitmq-server was not found in the PATH. Install it "
        "(Debian: apt-get install rabbitmq-server), or give the URL of a running one: "
        "--amqp amqp://USER:PASSWORD@HOST:5672/VHOST. Its vhost should be empty: the benchmark "
        "declares and deletes exchanges and queues there."
    )


def check_rabbitmq(url: str | None) -> None:
    """Check that there is a RabbitMQ to compare with, before anything is started.

    Raises:
        EmbeddedError: the URL does not answer, or there is no URL and no installed server.
    """
    if url is None:
        find_rabbitmq()
    else:
        connect(url).close()


class RabbitMQ:
    """A RabbitMQ node inside its `with` block, and one channel to it.

    Args:
        root: an empty folder for a node's data.
        url: of a running node; by default the installed server is started.

    Attributes:
        version: as the node reports it.
        pid: the Erlang VM, if it runs on this machine.
    """

    def __init__(self, root: Path, url: str | None = None) -> None:
        self._root = root
        self._url = url
        self._closing = ExitStack()
        self.version = ""
        self.pid: int | None = None

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            server = None if self._url else self._start(find_rabbitmq(), closing)
            connection = connect(self.url, server)
            closing.callback(_close, connection)
            self._channel = connection.channel()
            properties: dict[str, Any] = connection._impl.server_properties  # noqa: SLF001
            self.version = str(properties["version"])
            self._closing = closing.pop_all()
        self.pid = server.pid if server is not None else listener(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def url(self) -> str:
        """The URL for AMQP."""
        assert self._url is not None, "the server was not started"
        return self._url

    @contextmanager
    def declared(self, commands: Sequence[dict[str, Any]]) -> Iterator[None]:
        """Declare what the commands of a job declare, durable and empty; delete it at the end."""
        self._delete(commands)
        for command in commands:
            match command:
                case {"op": "declare_exchange", "exchange": {"name": name, "type": kind}}:
                    self._channel.exchange_declare(name, kind, durable=True)
                case {"op": "declare_queue", "queue": {"name": name, **rest}}:
                    arguments = rest.get("arguments")
                    self._channel.queue_declare(name, durable=True, arguments=arguments)
                case {"op": "bind", "binding": {"source": source, "destination": name, **rest}}:
                    self._channel.queue_bind(name, source, rest.get("routing_key", ""))
        try:
            yield
        finally:
            self._delete(commands)

    def _delete(self, commands: Sequence[dict[str, Any]]) -> None:
        for command in commands:
            match command:
                case {"op": "declare_exchange", "exchange": {"name": name}}:
                    self._channel.exchange_delete(name)
                case {"op": "declare_queue", "queue": {"name": name}}:
                    self._channel.queue_delete(name)

    def ready(self, queue: str) -> int:
        """Return the number of ready messages of a queue."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def _start(self, program: str, closing: ExitStack) -> Supervised:
        root = self._root
        root.mkdir(parents=True)
        port = free_port()
        distribution = free_port(frozenset({port}))
        epmd_port = free_port(frozenset({port, distribution}))
        (root / "enabled_plugins").write_text("[].\n")
        (root / "environment.conf").touch()
        (root / "rabbitmq.conf").write_text(f"listeners.tcp.1 = {LOOPBACK}:{port}\n")
        environment = {
            "HOME": str(root),  # of the Erlang cookie
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": f"dlx-bench-{port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(root / "data"),
            "RABBITMQ_LOG_BASE": str(root / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(root / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(root / "environment.conf"),
            "RABBITMQ_CONFIG_FILE": str(root / "rabbitmq.conf"),
            "RUNNING_UNDER_SYSTEMD": "1",  # no shell between us and the Erlang VM
        }
        epmd = shutil.which("epmd")
        if epmd is not None:  # otherwise the server starts one that outlives it
            closing.callback(Supervised([epmd], root / "epmd.out", environment).stop)
        server = Supervised([program], root / "rabbitmq.out", environment)
        closing.callback(server.stop)
        self._url = f"amqp://{_USER}@{LOOPBACK}:{port}"
        return server


def connect(url: str, server: Supervised | None = None) -> pika.BlockingConnection:
    """Connect; wait for a server that was just started.

    Raises:
        EmbeddedError: the URL is not valid, or nothing answers there.
    """
    shown = _without_password(url) or url
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, TypeError, KeyError) as error:
        raise EmbeddedError(
            f"--amqp: {shown!r} is not a valid URL: {error}. Expected "
            "amqp://USER:PASSWORD@HOST:5672/VHOST."
        ) from error
    if urlsplit(url).path == "/":  # pika takes it for the vhost /, PerfTest does not
        raise EmbeddedError(
            f"--amqp: {shown!r} names the empty vhost. End the URL at the port for the vhost /, or "
            "name another behind the slash."
        )
    parameters.heartbeat = 0  # nobody answers heartbeats while a case runs
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return pika.BlockingConnection(parameters)
        except (AMQPError, OSError) as error:
            if server is None:
                cause = str(error) or type(error).__name__
                raise EmbeddedError(
                    f"--amqp: no RabbitMQ answers at {shown!r} ({cause}). "
                    "Check host, port, user, password and vhost."
                ) from error
            if server.has_ended or time.monotonic() > deadline_s:
                text = f"rabbitmq-server does not answer:\n{server.output_end()}"
                raise EmbeddedError(text) from error
            time.sleep(_POLL_S)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _close(connection: pika.BlockingConnection) -> None:
    with suppress(AMQPError):
        connection.close()


def listener(url: str) -> int | None:
    """The process that listens on the port of a URL, if it runs on this machine and is visible."""
    parts = urlsplit(url)
    if parts.hostname not in LOCAL_HOSTS:
        return None
    port = parts.port or pika.ConnectionParameters.DEFAULT_PORT
    with suppress(psutil.AccessDenied):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port:
                return each.pid  # type: ignore[no-any-return] # psutil has no types
    return None
