"""What `dlx amqp` serves beside AMQP, each on a port of its own, or does without."""

import sys
from typing import NamedTuple


class PortBeside(NamedTuple):
    """Where something is served.

    Attributes:
        port: 0 for any that is free.
        is_asked: whether somebody asked for this port: otherwise the front does without where it
            cannot be used, as beside another front.
        hosts: more names of hosts in requests that are answered.
    """

    host: str
    port: int
    is_asked: bool
    hosts: tuple[str, ...] = ()


class CannotServeError(Exception):
    """A port that was asked for cannot be used; stderr says why."""


def do_without(where: PortBeside, what: str, why: str) -> None:
    """Say that something is not served.

    Raises:
        CannotServeError: it was asked for.
    """
    print(f"dlx amqp: no {what}: {why}", file=sys.stderr)
    if where.is_asked:
        raise CannotServeError
