"""How the commands that talk to a running job find it: --config, --user, --vhost, --timeout."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.config import DEFAULT_FILE

if TYPE_CHECKING:
    from streaming.client import Channel, Connection

DEFAULT_CHANNEL: Final = "cli"
DEFAULT_LEASE_S: Final = 300.0
LONGEST_S: Final = 7 * 86_400.0

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", help="The job's dlx.toml.")
]
User = Annotated[str, typer.Option("--user", metavar="NAME", help="Whom to act for.")]
Vhost = Annotated[str, typer.Option("--vhost", metavar="NAME", help="Where.")]


def _seconds(value: float | None) -> float | None:
    """Refuse what no clock shows: Python reads `nan` and `inf` as numbers."""
    if value is not None and not value <= LONGEST_S:
        raise typer.BadParameter(f"must be at most {LONGEST_S:.0f}, a week, not {value}")
    return value


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
Lease = Annotated[
    float,
    typer.Option(
        "--lease", metavar="SECONDS", min=1, callback=_seconds, help="How long it lives unused."
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        metavar="SECONDS",
        min=0,
        callback=_seconds,
        help="End when nothing comes for so long.",
    ),
]
ChannelName = Annotated[
    str,
    typer.Option(
        "--channel",
        metavar="NAME",
        help="What was got stays unacked on this channel until it is settled there, or until its "
        "lease ends: then it is requeued.",
    ),
]

DEFAULT_CONFIG: Final = DEFAULT_FILE
DEFAULT_USER: Final = "guest"
DEFAULT_VHOST: Final = "/"
DEFAULT_TIMEOUT_S: Final = 4.0  # what is wrong is told within 5 s, start and end included


def _log_trouble(*, shown: bool) -> None:
    """Let what goes wrong in the background be said, or not: an error that ends a command says it.

    Who only waits would hear of it nowhere else.
    """
    import logging

    from streaming.client import OUTAGE_LOGGER

    logging.getLogger(OUTAGE_LOGGER).setLevel(logging.NOTSET if shown else logging.CRITICAL)


@contextmanager
def while_waiting() -> Iterator[None]:
    """Trouble with Kafka or the job is said at once, and when it is over."""
    _log_trouble(shown=True)
    try:
        yield
    finally:
        _log_trouble(shown=False)


@contextmanager
def connected(config: Path, user: str, vhost: str, timeout_s: float) -> Iterator["Connection"]:
    """A connection to the job that is meant, for one command.

    Raises:
        DlxError: the configuration cannot be used, or Kafka or the job is down.
    """
    from streaming.client import Connection

    _log_trouble(shown=False)
    with Connection.from_config(config, user=user, vhost=vhost, timeout_s=timeout_s) as connection:
        yield connection


@contextmanager
def shared_channel(connection: "Connection", name: str, lease_s: float) -> Iterator["Channel"]:
    """A channel that outlives this process until its lease ends."""
    channel = connection.channel(name, lease_ms=max(int(lease_s * 1000), 1))
    try:
        yield channel
    finally:
        channel.detach()
