"""`dlx kafka`: a Kafka broker of one's own; and the one that `dlx run --with-kafka` starts.

    DIR           Kafka's data and ports; the next start continues them
    DIR/logs      its logs

Both use the folder `kafka` beside the configuration, so that either continues the other's topics.
"""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import DEFAULT_FILE, OwnConfigFile
from streaming.waiting import Flag

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.embedded.kafka.broker import EmbeddedKafka

DEFAULT_FOLDER: Final = Path("kafka")
DEFAULT_PORT: Final = 9092
CHECK_S: Final = 0.5


def kafka(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Folder for its data and logs.")
    ] = DEFAULT_FOLDER,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1,
            max=65_535,
            help="The port for clients. Default: that of the configuration's first bootstrap "
            "server if it is this machine, else that of the last start in this folder; at first "
            "9092, or any port if that is in use.",
            show_default=False,
        ),
    ] = None,
    config: OwnConfigFile = None,
) -> int:
    """Run a Kafka broker on this machine until Ctrl-C.

    It prints its address as the first line. The topics stay in the folder: the next start continues
    them. It has one node, listens on 127.0.0.1 only, and needs no password.

    Exit status: 0 when stopped, 1 if Kafka ended by itself, 2 if it could not start.
    """
    if directory.exists() and not directory.is_dir():
        raise typer.BadParameter(f"{directory} is a file; name a folder", param_hint="DIR")
    stopping = Flag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if port is None:
        port, why = _default_port(directory, config)
        print(why, file=sys.stderr, flush=True)
    broker = _broker(directory, port, None)
    broker.start()
    try:
        print(f"Kafka listens on {broker.bootstrap_servers}", flush=True)
        print(f"data: {broker.directory}", flush=True)
        print(f"log: {broker.log_file}", flush=True)
        print("Ctrl-C stops it; the next start continues its topics", flush=True)
        while not stopping.wait(CHECK_S):
            if not broker.is_running:
                print(f"Kafka ended by itself; see {broker.log_file}", file=sys.stderr)
                return EXIT_FINDINGS
    finally:
        broker.stop()
    print("stopped", flush=True)
    return EXIT_OK


def _default_port(directory: Path, config: Path | None) -> tuple[int | None, str]:
    """Return the port for a start, and a line that says where it comes from.

    The port is None for that of the last start, or any.

    Raises:
        DlxError: the configuration is invalid.
    """
    from streaming.embedded.kafka.ports import LOCAL_HOSTS, is_free

    file = config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    elsewhere = ""
    if file is not None:
        from streaming.config import read_config

        address = read_config(file).kafka.bootstrap_servers[0]
        host, _, port = address.rpartition(":")
        if host in LOCAL_HOSTS:
            return int(port), f"port {port}: that of kafka.bootstrap_servers in {file}"
        elsewhere = f"; {address} in {file} is not this machine"
    if (directory / "ports.json").exists():
        return None, f"port: that of the last start in {directory} if it is free{elsewhere}"
    if not is_free(DEFAULT_PORT):
        return None, f"port: any that is free, because {DEFAULT_PORT} is in use{elsewhere}"
    return DEFAULT_PORT, f"port {DEFAULT_PORT}: the default{elsewhere}"


def _broker(directory: Path, port: int | None, log_dir: Path | None) -> "EmbeddedKafka":
    from rich.console import Console

    from streaming.embedded.kafka.broker import EmbeddedKafka

    return EmbeddedKafka(
        directory.expanduser(), port=port, log_dir=log_dir, progress=Console(stderr=True)
    )


def broker_for(config: "JobConfig", file: Path) -> "EmbeddedKafka":
    """Return the broker that a configuration's job can run with, not yet started.

    Raises:
        InvalidConfigError: the configuration names another machine, several servers, a log-on, or
            a port in use.
    """
    from streaming.config import InvalidConfigError
    from streaming.embedded.kafka.ports import LOCAL_HOSTS, is_free
    from topology.errors import Problem

    host, _, port = config.kafka.bootstrap_servers[0].rpartition(":")
    alternative = "start the job without --with-kafka to use that cluster"
    if len(config.kafka.bootstrap_servers) > 1 or host not in LOCAL_HOSTS:
        what = (
            'names no single server on this machine, such as "localhost:9092": --with-kafka runs '
            f"its broker here; {alternative}"
        )
        raise InvalidConfigError((Problem("kafka.bootstrap_servers", what),))
    if config.kafka.security:
        what = f"is set, but the broker of --with-kafka needs no log-on; {alternative}"
        raise InvalidConfigError((Problem("kafka.security", what),))
    directory = file.absolute().parent / DEFAULT_FOLDER
    if not directory.exists() and not is_free(int(port)):
        what = (
            f"port {port} of this machine is in use: if a Kafka runs there, start the job without "
            "--with-kafka, otherwise set another port"
        )
        raise InvalidConfigError((Problem("kafka.bootstrap_servers", what),))
    return _broker(directory, int(port), Path(config.job.log_dir))
