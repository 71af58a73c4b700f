"""Deletes what is in a vhost that is being deleted, by commands in its log like any others.

So the job and its tables see each queue and message go, and a vhost that is made again under the
name begins as a new one does.
"""

from collections.abc import Iterator
from typing import Final, get_args

from streaming.amqp.entries import Ask
from streaming.broker import commands
from streaming.broker.commands import Command, LimitName
from streaming.broker.events import Actor
from streaming.sequencer.applied import is_applied
from streaming.sequencer.log_vhost import LogVhost
from topology.declarations import VhostLimits
from topology.errors import DlxError
from topology.refusals import refuse_exchange_deletion
from topology.vhost import Vhost

_AT_ONCE: Final = 1_000
_ROUNDS: Final = 40
"""An input may declare something meanwhile; not again and again."""


class NotEmptyError(DlxError):
    """Something in a vhost cannot be deleted."""


async def empty(vhost: LogVhost, by: Actor) -> bool:
    """Delete everything in a vhost that clients cannot open; whether it still leads then.

    Args:
        by: whoever deletes the vhost, for the audit.

    Raises:
        NotEmptyError: something comes again and again, or is refused.
    """
    rest: list[Command] = []
    for _ in range(_ROUNDS):
        await is_applied(vhost)  # connections that end delete their exclusive queues
        rest = list(_deletions(vhost.shard.vhost))
        if not vhost.leads or not rest:
            return vhost.leads
        for begin in range(0, len(rest), _AT_ONCE):
            for command in rest[begin : begin + _AT_ONCE]:
                vhost.submit(Ask(by, command))
            await is_applied(vhost)
    raise NotEmptyError(f"vhost {vhost.name}: it is not empty, whatever is deleted: {rest[0]}")


def _deletions(there: Vhost) -> Iterator[Command]:
    """What deletes all that a vhost has."""
    for permission in there.permissions.permissions():
        yield commands.ClearPermissions(user=permission.user)
    for user in sorted({one.user for one in there.topic_permissions.permissions()}):
        yield commands.ClearTopicPermissions(user=user)
    for queue in sorted(there.queues):
        yield commands.DeleteQueue(queue=queue)
    for exchange in sorted(there.router.exchanges):
        if refuse_exchange_deletion(exchange, "") is None:
            yield commands.DeleteExchange(exchange=exchange)
    for policy in there.policies.policies():
        yield commands.ClearPolicy(name=policy.name)
    for policy in there.policies.policies(operator=True):
        yield commands.ClearOperatorPolicy(name=policy.name)
    if there.limits != VhostLimits():
        for limit in get_args(LimitName):
            yield commands.ClearVhostLimit(limit=limit)
