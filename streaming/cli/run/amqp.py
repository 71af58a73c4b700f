"""`dlx amqp`: a broker for RabbitMQ's clients."""

import asyncio
import gc
import json
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer

from streaming.cli.exit_codes import EXIT_INVALID, EXIT_OK
from streaming.cli.options import OwnConfigFile, find_config
from streaming.cli.run.amqp_management import (
    serve_management,
)
from streaming.cli.run.amqp_metrics import serve_metrics
from streaming.cli.run.amqp_ports import CannotServeError, PortBeside
from streaming.cli.run.amqp_verify import verify
from streaming.cli.topology.commands import CompatOption
from streaming.listening import family_of, host_and_port

if TYPE_CHECKING:
    from streaming.amqp.certificate_files import TlsFiles
    from streaming.amqp.certificates import CertificateName
    from streaming.amqp.memory import MemoryBroker
    from streaming.amqp.server import Server
    from streaming.amqp.web.server import WebServer

AMQP_PORT: Final = 5672

_OPEN_FILES: Final = (1 << 20, 10_240)
"""How many files a front may have open at most: the first that the system allows."""


app = typer.Typer(name="amqp")
app.command()(verify)


@app.callback(invoke_without_command=True)
def amqp(
    context: typer.Context,
    *,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory; no Kafka, no Spark.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 for any that is free.")
    ] = AMQP_PORT,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Vhosts, users, permissions and topology, as RabbitMQ exports them.",
        ),
    ] = None,
    clock: Annotated[
        Literal["wall", "manual"],
        typer.Option("--clock", help="manual: time passes only when a test moves it."),
    ] = "wall",
    web: Annotated[
        int | None,
        typer.Option(
            "--web",
            metavar="PORT",
            min=0,
            max=65_535,
            help="Show queues, messages and deaths on this port, and let tests move the clock. "
            "Needs the extra console.",
        ),
    ] = None,
    management: Annotated[
        int | None,
        typer.Option(
            "--management",
            metavar="PORT",
            min=0,
            max=65_535,
            help="Serve RabbitMQ's management API on this port: 15672 is RabbitMQ's. 0: any that "
            "is free. Default: amqp.management_port; with --memory, nowhere. Needs the extra "
            "console.",
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics",
            metavar="PORT",
            min=0,
            max=65_535,
            help="Serve metrics for Prometheus, with RabbitMQ's names, on this port; 0 for any "
            "that is free. Default: amqp.metrics_port of the configuration, 15692; with --memory "
            "none. Needs the extra amqp.",
        ),
    ] = None,
    tls: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--tls", metavar="CERT KEY", help="Speak TLS with this certificate and its key."
        ),
    ] = None,
    tls_port: Annotated[
        int | None,
        typer.Option(
            "--tls-port",
            metavar="PORT",
            min=0,
            max=65_535,
            help="The port of TLS: 5671 is RabbitMQ's. --port then stays without TLS. "
            "Default: --port alone, with TLS.",
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca",
            metavar="FILE",
            help="Require a certificate of this authority from each client of TLS; its name is the "
            "user's.",
        ),
    ] = None,
    login_from: Annotated[
        Literal["common_name", "distinguished_name", "subject_alternative_name"],
        typer.Option(
            "--tls-login-from",
            help="Which name of a client's certificate is the user's, as in RabbitMQ's "
            "ssl_cert_login_from; of alternative names, the first of DNS.",
        ),
    ] = "common_name",
    remote_guest: Annotated[
        bool,
        typer.Option("--remote-guest", help="Let the user guest connect from other machines, too."),
    ] = False,
    compat: CompatOption = "4.0",
    config: OwnConfigFile = None,
    vhost: Annotated[
        list[str] | None,
        typer.Option(
            "--vhost",
            metavar="NAME",
            help="A sequenced vhost to serve; may be repeated. Default: all of the configuration.",
        ),
    ] = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Follow the front that runs, and take over when it is silent."
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Go on with inputs of the job as they are, although records that were copied from "
            "them are gone.",
        ),
    ] = False,
) -> int:
    """Run a broker that RabbitMQ's clients connect to, until Ctrl-C.

    It speaks AMQP 0-9-1. It serves the sequenced vhosts of a job, whose messages are in Kafka:
    what clients do is in one log for each vhost, and the job keeps the tables from it.

    With --memory it needs no configuration, starts at once and writes nothing: for tests and for
    development. It has the vhosts of --definitions, or else the vhost /.

    Users are those of --definitions and, without --memory, those of the configuration that have a
    password_hash. Without any there is the user guest with the password guest. A user of this name
    may connect from this machine only, unless --remote-guest says otherwise.

    Exit status: 0 when stopped, 1 if another front has taken over or it failed, 2 if it could not
    start.
    """
    if context.invoked_subcommand is not None:
        return EXIT_OK
    tls_context = _tls_context(tls, tls_ca)
    if tls_port is not None and tls is None:
        raise typer.BadParameter("needs --tls CERT KEY", param_hint="--tls-port")
    listening = Listening(
        *(host, port, tls_context, tls_port),
        login_from=None if tls_ca is None else login_from,
        remote_guest=remote_guest,
        tls_files=None if tls is None else _tls_files(tls[0], tls_ca),
    )
    document = None if definitions is None else _document(definitions)
    if not memory:
        from streaming.cli.run.amqp_on_kafka import serve_logs

        only_in_memory = {"--clock": clock != "wall", "--web": web}
        for hint, given in only_in_memory.items():
            if given not in {None, False}:
                raise typer.BadParameter("needs --memory", param_hint=hint)
        return serve_logs(
            find_config(config, or_demo=False),
            vhost or [],
            document,
            listening,
            (management, metrics),
            standby=standby,
            accepts_loss=accept_loss,
        )
    only_on_kafka = {"--standby": standby, "--vhost": vhost, "--accept-loss": accept_loss}
    for hint in (hint for hint, given in only_on_kafka.items() if given):
        raise typer.BadParameter("cannot be used with --memory", param_hint=hint)
    source = context.get_parameter_source("config")
    if source is not None and source.name == "COMMANDLINE":  # not the environment
        text = "cannot be used with --memory; users and topology come from --definitions"
        raise typer.BadParameter(text, param_hint="--config")
    from streaming.amqp.clocks import ManualClock, WallClock
    from streaming.amqp.memory import MemoryBroker

    broker = MemoryBroker(
        WallClock() if clock == "wall" else ManualClock(),
        compat,
        login_from=listening.login_from,
        remote_guest=remote_guest,
    )
    broker.server.follows_wall_clock = clock == "wall"
    if document is not None:
        broker.load(document, alone=True)
        for problem in broker.skipped:
            print(f"{definitions}: skipped: {problem}", file=sys.stderr)
    ports = _Ports(web, management, metrics)
    return run_server(_serve(broker, listening, ports))


class _Ports(NamedTuple):
    """Where else a broker in memory is served; None for nowhere."""

    web: int | None
    management: int | None
    metrics: int | None


class Listening(NamedTuple):
    """Where a server listens.

    Attributes:
        port: speaks TLS if there is `tls` and no port for it.
        login_from: which name of a client's certificate is its user; None: they need none.
        remote_guest: the user guest may connect from other machines, too.
        tls_files: what is in the files of `tls`.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    tls_port: int | None
    login_from: "CertificateName | None"
    remote_guest: bool = False
    tls_files: "TlsFiles | None" = None


async def listen(server: "Server", where: Listening) -> list[tuple[str, str, int]]:
    """Listen, and say where: RabbitMQ's name of each protocol, the address and the port.

    Nothing is listened to if one of the ports cannot be used: stderr then says why.
    """
    server.tls_files = where.tls_files
    wanted = [(where.port, where.tls if where.tls_port is None else None)]
    if where.tls_port is not None:
        wanted.append((where.tls_port, where.tls))
    found = []
    for wished, tls in wanted:
        try:
            port = await server.listen(where.host, wished, tls)
        except OSError as error:
            reason = error.strerror or str(error)
            place = host_and_port(where.host, wished)
            print(f"dlx amqp: cannot listen on {place}: {reason}", file=sys.stderr)
            await server.close()
            return []
        found.append(("amqp" if tls is None else "amqp/ssl", where.host, port))
    for (_name, host, port), (_wished, tls) in zip(found, wanted, strict=True):
        scheme = "amqp" if tls is None else "amqps"
        print(f"listening on {scheme}://{host_and_port(host, port)}", flush=True)
    return found


def run_server(serving: Coroutine[Any, Any, int]) -> int:
    """Run the server, on uvloop where that is installed."""
    _allow_many_connections()
    gc.collect()
    gc.freeze()  # what is loaded now stays: collections need not look at it
    try:
        import uvloop
    except ImportError:
        return asyncio.run(serving)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving)


def _allow_many_connections() -> None:
    """Raise this process's limit of open files, which a shell may have set to 1,024 or 256.

    Each connection needs one. Only what the system lets every user do is done.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in _OPEN_FILES:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= most:
            return
        with suppress(ValueError, OSError):  # macOS has a limit below an unlimited hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return


async def _serve(broker: "MemoryBroker", listening: Listening, ports: _Ports) -> int:
    from streaming.management.counting import Counting
    from streaming.management.memory import MemoryFront

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    listeners = await listen(broker.server, listening)
    if not listeners:
        return EXIT_INVALID
    host = listening.host
    pages = None if ports.web is None else await _serve_web(broker, host, ports.web)
    where = None if ports.metrics is None else PortBeside(host, ports.metrics, is_asked=True)
    counting, api, metrics = Counting(), None, None
    try:
        api = serve_management(
            None if ports.management is None else PortBeside(host, ports.management, True),
            lambda: MemoryFront(broker),
            listeners,
            counting,
            console=None if pages is None else (host, pages.port),
        )
        metrics = serve_metrics(
            broker.server, where, "memory", counting=None if api is None else counting
        )
    except CannotServeError:
        if api is not None:
            await api.stop()
        await broker.server.close()
        return EXIT_INVALID
    await stopping.wait()
    if metrics is not None:
        metrics.stop()
    if api is not None:
        await api.stop()
    if pages is not None:
        pages.should_exit = True
    await broker.server.close()
    print("stopped", flush=True)
    return EXIT_OK


async def _serve_web(broker: "MemoryBroker", host: str, port: int) -> "WebServer":
    """Serve the page and the JSON beside the broker.

    Raises:
        OSError: the address cannot be used.
    """
    import uvicorn

    from streaming.amqp.web.app import web_app
    from streaming.amqp.web.server import WebServer

    listener = socket.create_server((host, port), family=family_of(host))
    hosts = ["localhost", "127.0.0.1", "[::1]", host]
    config = uvicorn.Config(web_app(broker, hosts), log_level="warning", lifespan="off")
    server = WebServer(config)
    server.port = listener.getsockname()[1]
    server.task = asyncio.get_running_loop().create_task(server.serve([listener]))
    print(f"pages at http://{host_and_port(host, server.port)}/", flush=True)
    return server


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise typer.BadParameter(
            f"{path} is not JSON: {error}", param_hint="--definitions"
        ) from None
    if not isinstance(document, dict):
        raise typer.BadParameter(f"{path} is not a JSON object", param_hint="--definitions")
    return document


def _tls_context(pair: tuple[Path, Path] | None, ca: Path | None) -> ssl.SSLContext | None:
    if pair is None:
        if ca is not None:
            raise typer.BadParameter("needs --tls CERT KEY", param_hint="--tls-ca")
        return None
    from streaming.amqp.certificates import LoggedHandshake

    certificate, key = pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = LoggedHandshake
    with _reading("--tls", certificate, key):
        context.load_cert_chain(certificate, key, _refuse_encrypted_key)
    if ca is not None:
        with _reading("--tls-ca", ca):
            context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _tls_files(certificate: Path, ca: Path | None) -> "TlsFiles":
    from streaming.amqp.certificate_files import TlsFiles, read_tls_file

    return TlsFiles(read_tls_file(certificate), None if ca is None else read_tls_file(ca))


@contextmanager
def _reading(option: str, *files: Path) -> Iterator[None]:
    """Refuse an option whose files cannot be used; the text names them, and says what is wrong."""
    for file in files:
        try:
            file.read_bytes()
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}", param_hint=option) from None
    try:
        yield
    except ssl.SSLError as error:
        named = " and ".join(map(str, files))
        why = f"not usable PEM files ({error.reason or error.strerror})"
        raise typer.BadParameter(f"{named}: {why}", param_hint=option) from None


def _refuse_encrypted_key() -> str:
    text = "the key is encrypted; decrypt it with `openssl pkey -in KEY -out NEW_KEY`"
    raise typer.BadParameter(text, param_hint="--tls")
