"""`dlx config init`: writes a short dlx.toml with which a first job runs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import DEFAULT_FILE
from topology.errors import DlxError, InvalidTopologyError

DEFAULT_SERVERS: Final = "localhost:9092"

_HEAD: Final = """\
# A job of dlx-stream. `dlx run --with-kafka` starts it together with a Kafka broker of its own.
# `dlx config show` prints every other setting with its default and its meaning.

[job]
# Paths start at the folder of this file. Keep the checkpoint: without it, the job cannot continue
# its tables.
checkpoint_location = "checkpoints"
tables_location = "tables"
log_dir = "logs"

[kafka]
# The broker that `dlx kafka` or --with-kafka runs on this machine, or brokers of your own.
"""
_SEQUENCED: Final = """\
# RabbitMQ's clients use it, with `dlx amqp`. Fixed by the first start.
"""
_DEFINITIONS: Final = """\
# A definitions.json as RabbitMQ exports it. The job imports it when it starts for the first time;
# afterwards, use `dlx definitions import`.
"""


def init(
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="The file to write.")
    ] = DEFAULT_FILE,
    *,
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A definitions.json from RabbitMQ, which the job imports at its first start.",
        ),
    ] = None,
    vhosts: Annotated[
        list[str] | None,
        typer.Option(
            "--vhost",
            metavar="NAME",
            help="A vhost of the job; may be repeated. Default: those of the definitions, or /.",
        ),
    ] = None,
    servers: Annotated[
        str, typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="Your Kafka.")
    ] = DEFAULT_SERVERS,
    amqp: Annotated[
        bool, typer.Option("--amqp", help="The vhosts are for RabbitMQ's clients, by `dlx amqp`.")
    ] = False,
) -> int:
    """Write a short configuration for a first job.

    `dlx run --with-kafka` then runs the job, with a Kafka broker of its own. With --amqp,
    `dlx amqp` beside it serves RabbitMQ's clients. An existing file is never overwritten.
    """
    from streaming.config import parse_config
    from streaming.config.definitions_files import load_vhost_definitions
    from streaming.config.loading import rooted

    if file.exists():
        raise DlxError(f"{file}: exists already and is not overwritten; name another file")
    folder = file.absolute().parent
    if not folder.is_dir():
        raise DlxError(f"{file}: the folder {folder} does not exist; create it")
    names = list(dict.fromkeys(vhosts or ())) or (
        ["/"] if definitions is None else _vhosts_in(definitions)
    )
    path = None if definitions is None else os.path.relpath(definitions.absolute(), folder)
    text = "".join(_text(servers.split(","), names, path, amqp=amqp))
    load_vhost_definitions(
        rooted(parse_config(text), folder), lambda words: print(f"skipped: {words}")
    )
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    of_file = "" if file == DEFAULT_FILE else f" --config {file}"
    own = " --with-kafka" if servers == DEFAULT_SERVERS else ""
    front = f", `dlx amqp{of_file}` for AMQP" if amqp else ""
    print(f"{file}: written; `dlx run{of_file}{own}` starts the job{front}")
    return EXIT_OK


def _vhosts_in(definitions: Path) -> list[str]:
    from topology.definitions.load import load_definitions

    try:
        return list(load_definitions(definitions.read_bytes()).vhosts) or ["/"]
    except InvalidTopologyError as error:
        problems = (f"{definitions}: {problem}" for problem in error.problems)
        raise DlxError("\n".join(problems)) from error


def _text(
    servers: Sequence[str], vhosts: Sequence[str], definitions: str | None, *, amqp: bool
) -> Iterator[str]:
    import tomlkit

    def toml(value: object) -> str:
        return str(tomlkit.item(value).as_string())

    yield _HEAD
    yield f"bootstrap_servers = {toml(list(servers))}\n"
    for name in vhosts:
        yield f"\n[vhosts.{toml(name)}]\n"
        if amqp:
            yield f"{_SEQUENCED if name == vhosts[0] else ''}sequenced = true\n"
        if definitions is None:
            yield '# definitions = "definitions.json"  # from RabbitMQ, for the first start\n'
        else:
            yield f"{_DEFINITIONS if name == vhosts[0] else ''}definitions = {toml(definitions)}\n"
