"""The options that commands share, and what they find: a configuration, tables, a connection.

A command that talks to a job has a parameter `job: JobOptions` and the decorator `job_options`.

    --config FILE, else DLX_CONFIG, else ./dlx.toml, else the last demo (said on stderr)
        --> the job that a command talks to
        --> the tables that it reads, unless --tables names them

A named file that does not exist is refused while the options are read; the others are looked for
only when a command needs them, so that wrong options are reported first.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_NO_ANSWER, EXIT_NO_JOB
from streaming.cli.option_groups import Command, Option, with_options
from streaming.cli.output import printable
from streaming.cli.refusals import explained
from streaming.protocol.defaults import (
    DEFAULT_USER,
    DEFAULT_VHOST,
    DETACHED_LEASE_S,
    TIMEOUT_S,
)
from streaming.storage.location import Location
from streaming.user_folders import CONFIG_NAME, last_demo
from topology.errors import InvalidDocumentError, Problem

if TYPE_CHECKING:
    from streaming.client import Channel, Connection
    from streaming.config import JobConfig
    from streaming.config.vhosts import UserSettings
    from streaming.queries.duckdb_tables import Tables

DEFAULT_FILE: Final = Path(CONFIG_NAME)
CONFIG_VARIABLE: Final = "DLX_CONFIG"
VHOST_VARIABLE: Final = "DLX_VHOST"

MAX_SECONDS: Final = 7 * 86_400.0

SQL_BYTES: Final = 1 << 32
"""How much more memory a command may take to compute SQL of its user."""

DEFAULT_TIMEOUT_S: Final = TIMEOUT_S
DEFAULT_CHANNEL: Final = "cli"
DEFAULT_LEASE_S: Final = DETACHED_LEASE_S


def find_config(named: Path | None, *, or_demo: bool = True) -> Path:
    """Return the named configuration, or else ./dlx.toml, or else that of the last demo.

    A line on stderr says so if it is the demo's.

    Raises:
        InvalidDocumentError: there is none; the text names the remedies.
    """
    if named is not None:
        return named
    if DEFAULT_FILE.is_file():
        return DEFAULT_FILE
    demo = last_demo() if or_demo else None
    if demo is None:
        raise _no_config(
            str(DEFAULT_FILE),
            "no such file here; write one with `dlx config init`, name yours with --config FILE or "
            f"{CONFIG_VARIABLE}, or run `dlx demo`",
        )
    home = str(Path.home())
    shown = str(demo).replace(home, "~", 1) if str(demo).startswith(f"{home}/") else demo
    print(f"using the last demo: {shown}", file=sys.stderr)
    return demo


def is_on_command_line(context: typer.Context, option: str) -> bool:
    """Whether the user gave an option, rather than its environment variable or nothing."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def _no_config(where: str, what: str) -> Exception:
    return InvalidDocumentError((Problem(where, what),))


def _named(context: typer.Context, option: typer.CallbackParam, given: Path | None) -> Path | None:
    """Check a file that --config or DLX_CONFIG names; None if neither does."""
    source = context.get_parameter_source(option.name or "")
    if given is None or source is None or source.name == "DEFAULT" or context.resilient_parsing:
        return None
    if not given.is_file():
        where = CONFIG_VARIABLE if source.name == "ENVIRONMENT" else "--config"
        what = "no such file"
        remedy = f"correct the path, or write one with `dlx config init {given}`"
        if given.is_dir():
            what, remedy = "is a folder", f"name the file in it: {given / DEFAULT_FILE}"
        elif given.exists():
            what, remedy = "is not a regular file", "copy what it gives to a file, and name that"
        raise _no_config(f"{where}: {given}", f"{what}; {remedy}")
    return given


def _seconds(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which Python reads as numbers."""
    if value is not None and not value <= MAX_SECONDS:
        raise typer.BadParameter(f"must be at most {MAX_SECONDS:.0f}, a week, not {value}")
    return value


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar=CONFIG_VARIABLE,
        callback=_named,
        help="The job's configuration. Default: ./dlx.toml, or else the last demo's.",
    ),
]
"""The configuration that the user names; without one, `find_config` finds it."""

OwnConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar=CONFIG_VARIABLE,
        callback=_named,
        help="The job's configuration. Default: ./dlx.toml.",
    ),
]
"""The same for a command that must not take the demo's."""

TablesLocation = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="DIR",
        help="Folder or URL with one folder per table, instead of a configuration's.",
    ),
]
User = Annotated[str, typer.Option("--user", metavar="NAME", help="User to act as.")]
Vhost = Annotated[
    str, typer.Option("--vhost", metavar="NAME", envvar=VHOST_VARIABLE, help="Vhost to use.")
]
VhostFilter = Annotated[
    str | None,
    typer.Option("--vhost", metavar="NAME", envvar=VHOST_VARIABLE, help="Only this vhost."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        callback=_seconds,
        help="How long to wait for Kafka and the job.",
    ),
]
RequireJob = Annotated[
    bool,
    typer.Option(
        "--require-job",
        help="Send nothing if no job is heard; otherwise Kafka keeps the command until one starts.",
    ),
]
Lease = Annotated[
    float,
    typer.Option(
        "--lease",
        metavar="SECONDS",
        min=1,
        callback=_seconds,
        help="How long the broker keeps the channel unused.",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        metavar="SECONDS",
        min=0,
        callback=_seconds,
        help="Stop after this time without a message.",
    ),
]
ChannelName = Annotated[
    str,
    typer.Option(
        "--channel",
        metavar="NAME",
        help="Messages stay unacked on this channel until you settle them or its lease ends; "
        "then they are requeued.",
    ),
]


@contextmanager
def logged_outages() -> Iterator[None]:
    """Log outages of Kafka and the job, for a command that waits.

    Other commands do not need it: an error ends them.
    """
    _log_outages(enabled=True)
    try:
        yield
    finally:
        _log_outages(enabled=False)


def _log_outages(*, enabled: bool) -> None:
    import logging

    from streaming.client import OUTAGE_LOGGER

    level = logging.NOTSET if enabled else logging.CRITICAL
    logging.getLogger(OUTAGE_LOGGER).setLevel(level)


@dataclass
class JobOptions:
    """The job that a command talks to, and how.

    Attributes:
        config: the configuration that the user names, if any.
        require_job: see `RequireJob`.
    """

    config: Path | None
    user: str
    timeout_s: float
    require_job: bool
    vhost: str = DEFAULT_VHOST

    @cached_property
    def file(self) -> Path:
        """The configuration that `find_config` finds; it is looked for once."""
        return find_config(self.config)

    def connect(self, vhost: str | None = None) -> AbstractContextManager["Connection"]:
        """Connect as `connect` does, to --vhost or to another vhost."""
        return connect(
            self.file,
            self.user,
            self.vhost if vhost is None else vhost,
            self.timeout_s,
            require_job=self.require_job,
        )


def job_options(command: Command) -> Command:
    """Give a command the options of `JobOptions`; it receives them as its parameter `job`."""
    return with_options(command, "job", _JOB_OPTIONS, JobOptions)


def job_options_without_vhost(command: Command) -> Command:
    """The same for a command that chooses the vhosts itself."""
    options = {name: each for name, each in _JOB_OPTIONS.items() if name != "vhost"}
    return with_options(command, "job", options, JobOptions)


_JOB_OPTIONS: Final = {
    "config": Option(ConfigFile),
    "user": Option(User, DEFAULT_USER),
    "vhost": Option(Vhost, DEFAULT_VHOST),
    "timeout_s": Option(Timeout, DEFAULT_TIMEOUT_S),
    "require_job": Option(RequireJob, False),
}


@contextmanager
def connect(
    config: Path | None, user: str, vhost: str, timeout_s: float, *, require_job: bool = False
) -> Iterator["Connection"]:
    """Connect to the job of a configuration, for one command.

    Args:
        require_job: see `RequireJob`.

    Raises:
        DlxError: the configuration is invalid, Kafka is down, or the broker refuses the command.
        typer.Exit: no job answers; stderr says so.
    """
    from streaming.client import BrokerError, Connection, NoAnswerError, NoJobError

    file = find_config(config)
    _log_outages(enabled=False)
    try:
        with Connection.from_config(file, user=user, vhost=vhost, timeout_s=timeout_s) as opened:
            if require_job:
                opened.require_job()
            try:
                yield opened
            except BrokerError as error:
                raise explained(opened, error) from error
    except NoJobError as error:
        print(printable(f"{error}, or choose another job with --config ({file})"), file=sys.stderr)
        raise typer.Exit(EXIT_NO_JOB) from None
    except NoAnswerError as error:
        remedy = f"The configuration is {file} (--config); --timeout waits longer"
        print(printable(f"{error} {remedy}"), file=sys.stderr)
        raise typer.Exit(EXIT_NO_ANSWER if error.takes_effect else EXIT_NO_JOB) from None


@contextmanager
def shared_channel(connection: "Connection", name: str, lease_s: float) -> Iterator["Channel"]:
    """Open a channel that outlives this process until its lease ends."""
    channel = connection.channel(name, lease_s=lease_s)
    try:
        yield channel
    finally:
        channel.detach()


def locate(tables: str | None, config: Path | None) -> Location:
    """Return the location of the tables: --tables, or the `tables_location` of a configuration.

    Raises:
        DlxError: there is no configuration, or it is invalid.
    """
    if tables is not None and config is None:
        return Location(tables)
    from streaming.config import read_config
    from streaming.config.loading import rooted
    from streaming.job_locations import tables_place

    file = find_config(config)
    location = tables_place(rooted(read_config(file), file.absolute().parent), os.environ)
    return location if tables is None else Location(tables, location.options)


def known_settings(tables: str | None, config: Path | None) -> "JobConfig | None":
    """Return the configuration; None if only tables are named and there is none here.

    Raises:
        DlxError: there is no configuration, or it is invalid.
    """
    if tables is not None and config is None and not DEFAULT_FILE.is_file():
        return None
    from streaming.config import read_config

    return read_config(find_config(config))


def known_users(tables: str | None, config: Path | None) -> "Mapping[str, UserSettings]":
    """Return the users of the configuration; none if only tables are named and there is none.

    Raises:
        DlxError: there is no configuration, or it is invalid.
    """
    settings = known_settings(tables, config)
    return {} if settings is None else settings.users


@contextmanager
def open_at(location: Location) -> Iterator["Tables"]:
    """Open the tables of a location for the queries of one command."""
    from streaming.cli.interrupts import interruptible
    from streaming.queries.duckdb_tables import Tables

    with Tables(location.url, location.options) as opened, interruptible(opened.connection):
        yield opened


@contextmanager
def open_tables(tables: str | None, config: Path | None) -> Iterator["Tables"]:
    """Open the tables that `locate` finds for the queries of one command."""
    with open_at(locate(tables, config)) as opened:
        yield opened


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Bound the memory of a command that computes a user's SQL; beyond it, DuckDB refuses.

    The pool of DuckDB is bounded too, so that large answers go to temporary files before that.
    """
    import resource

    from streaming.queries.duckdb_tables import Tables, default_memory_bytes

    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    [taken, *_] = [int(line.split()[1]) for line in lines if line.startswith("VmData:")] or [0]
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken * 1024 + SQL_BYTES
    known = [one for one in (soft, hard, limit) if one != resource.RLIM_INFINITY]
    before = Tables.memory_bytes
    Tables.memory_bytes = min(SQL_BYTES // 2, default_memory_bytes())
    resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        Tables.memory_bytes = before
