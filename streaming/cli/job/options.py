"""The options of commands that talk to a running job, and the connection that they describe."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from streaming.client import Channel, Connection

MAX_SECONDS: Final = 7 * 86_400.0

DEFAULT_USER: Final = "guest"
DEFAULT_VHOST: Final = "/"
DEFAULT_TIMEOUT_S: Final = 4.0  # an outage is reported within 5 s, start and end included
DEFAULT_CHANNEL: Final = "cli"
DEFAULT_LEASE_S: Final = 300.0


def _seconds(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which Python reads as numbers."""
    if value is not None and not value <= MAX_SECONDS:
        raise typer.BadParameter(f"must be at most {MAX_SECONDS:.0f}, a week, not {value}")
    return value


User = Annotated[str, typer.Option("--user", metavar="NAME", help="User to act as.")]
Vhost = Annotated[str, typer.Option("--vhost", metavar="NAME", help="Vhost to use.")]
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


@contextmanager
def connect(config: Path, user: str, vhost: str, timeout_s: float) -> Iterator["Connection"]:
    """Connect to the job of a configuration, for one command.

    Raises:
        DlxError: the configuration is invalid, or Kafka or the job is down.
    """
    from streaming.client import Connection

    _log_outages(enabled=False)
    with Connection.from_config(config, user=user, vhost=vhost, timeout_s=timeout_s) as connection:
        yield connection


@contextmanager
def shared_channel(connection: "Connection", name: str, lease_s: float) -> Iterator["Channel"]:
    """Open a channel that outlives this process until its lease ends."""
    channel = connection.channel(name, lease_ms=max(int(lease_s * 1000), 1))
    try:
        yield channel
    finally:
        channel.detach()
