"""Limits of vhosts and users, and what is refused beyond them (R-LIMIT).

A limit below 0 is none; 0 allows nothing. Limits never end what exists. Only a front knows how many
connections and channels there are: it asks here, with its own counts.
"""

from collections.abc import Mapping

import msgspec

from topology.declarations import VhostLimits
from topology.refusals import Refusal, not_allowed, precondition_failed


class UserLimits(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The limits of one user, in all vhosts together; None: no limit."""

    max_connections: int | None = None
    max_channels: int | None = None


def read_user_limits(limits: Mapping[str, object]) -> UserLimits:
    """Read the member `limits` of a user in a definitions document.

    Raises:
        msgspec.ValidationError: a limit is not a whole number.
    """
    return msgspec.convert(dict(limits), UserLimits)


def with_limit(limits: VhostLimits, name: str, value: int | None) -> VhostLimits:
    """The limits with one of them changed; None removes it."""
    return msgspec.structs.replace(limits, **{name.replace("-", "_"): value})


def _is_reached(limit: int | None, count: int) -> bool:
    return limit is not None and 0 <= limit <= count


def refuse_queue(limits: VhostLimits, queues: int, name: str, vhost: str) -> Refusal | None:
    """406 if the vhost has as many queues as it may."""
    if not _is_reached(limits.max_queues, queues):
        return None
    return precondition_failed(
        f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limits.max_queues}) is"
        " reached"
    )


def refuse_import(limits: VhostLimits, queues: int, added: int, vhost: str) -> Refusal | None:
    """406 if an import declares more new queues than the vhost may still have.

    Args:
        queues: how many the vhost has.
        added: how many of the document it does not have.
    """
    most = limits.max_queues
    if most is None or most < 0 or not added or queues + added <= most:
        return None
    queues = queues if most else 0  # with a limit of 0, RabbitMQ does not count
    return precondition_failed(
        f'Adding {added} queue(s) to virtual host "{vhost}" would exceed the limit of {most}'
        f" queue(s).\n\nThis virtual host currently has {queues} queue(s) defined.\n\n"
        "Import aborted!"
    )


def refuse_connection(
    limits: VhostLimits, connections: int, user: str, vhost: str
) -> Refusal | None:
    """530 if the vhost has as many connections as it may."""
    if not _is_reached(limits.max_connections, connections):
        return None
    return not_allowed(
        f"access to vhost '{vhost}' refused for user '{user}':"
        f" connection limit ({limits.max_connections}) is reached"
    )


def refuse_user_connection(limits: UserLimits, connections: int, user: str) -> Refusal | None:
    """530 if the user has as many connections as they may."""
    if not _is_reached(limits.max_connections, connections):
        return None
    return not_allowed(
        f"connection refused for user '{user}':"
        f" user connection limit ({limits.max_connections}) is reached"
    )


def refuse_user_channel(limits: UserLimits, channels: int, user: str) -> Refusal | None:
    """530, which closes the connection, if the user has as many channels as they may."""
    if not _is_reached(limits.max_channels, channels):
        return None
    return not_allowed(
        f"number of channels opened for user '{user}' has reached the maximum allowed user limit"
        f" of ({limits.max_channels})"
    )
