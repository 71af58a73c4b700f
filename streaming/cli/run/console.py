"""`dlx console`: pages about the tables, in a browser."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import DEFAULT_FILE, ConfigFile, TablesLocation, find_config, locate
from streaming.cli.output import printable

BESIDE_JOB: Final = "--beside-job"
PORT: Final = 9420
HOST: Final = "127.0.0.1"


def _hash(wanted: bool) -> None:
    if wanted:
        from streaming.console.logins import hash_password

        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        print(hash_password(password))
        raise typer.Exit


def console(
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help=f"Address to listen on.  [default: {HOST}:{PORT}, or a free port]",
            show_default=False,
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse every action, such as redrives.")
    ] = False,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE|FILE",
            help="Language of all pages: a code such as de, or the file of a translation.  "
            "[default: as each browser asks]",
            show_default=False,
        ),
    ] = None,
    hash_password: Annotated[
        bool,
        typer.Option(
            "--hash-password",
            is_eager=True,
            callback=_hash,
            help="Ask for a password, print its hash for a file of credentials, and exit.",
        ),
    ] = False,
    beside_job: Annotated[bool, typer.Option(BESIDE_JOB, hidden=True)] = False,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the tables in a browser, now or as of an instant.

    It prints a link that logs in once. It only needs the tables; actions such as a redrive need
    the running job too. Users, roles and other addresses: [console] in the configuration.
    """
    assert not hash_password, "the option exits"
    import attrs

    from streaming.config import read_config
    from streaming.config.console import ConsoleSettings
    from streaming.config.loading import rooted
    from streaming.config.metrics import split_address
    from streaming.console.beside_job import end_with_job, yield_to_job
    from streaming.console.reader import Reader
    from streaming.console.server import Server
    from streaming.listening import ListenError

    if beside_job:
        yield_to_job()  # before there are threads
    file = None if tables is not None and config is None else find_config(config)
    settings = ConsoleSettings()
    quiet: tuple[str, ...] = ()
    quiet_of: dict[str, tuple[str, ...]] = {}
    if file is not None:
        folder = Path(file).absolute().parent
        found = rooted(read_config(file), folder)
        settings, quiet = found.console, found.metrics.quiet_queues
        quiet_of = found.alerts.quiet
        if (settings.language or "").endswith(".po"):
            settings = attrs.evolve(settings, language=str(folder / str(settings.language)))
    settings = attrs.evolve(
        settings,
        listen=listen or settings.listen,
        read_only=read_only or settings.read_only,
        language=language or settings.language,
    )
    place = locate(tables, config)
    reader = Reader(place.url, place.options)

    local = place.local_path()
    root = place.url if local is None else str(local.absolute())
    places = {} if tables is None else {"--tables": root}
    if config is not None and config != DEFAULT_FILE:
        places["--config"] = str(config.absolute())

    def announce(url: str) -> None:
        print(printable(url), flush=True)

    def serve(host: str, port: int) -> Server:
        return Server(
            *(host, port, settings, reader, file, announce, places),
            quiet=quiet,
            quiet_of=quiet_of,
            is_beside_job=beside_job,
        )

    if settings.listen is not None:
        server = serve(*split_address(settings.listen))
    else:
        try:
            server = serve(HOST, PORT)
        except ListenError:
            server = serve(HOST, 0)
    if beside_job:
        end_with_job(server.stop)
    else:
        print("the console runs until Ctrl-C; open this link:", file=sys.stderr)
    server.run()
    return EXIT_OK
