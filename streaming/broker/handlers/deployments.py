"""The command that notes a deployment, so that deaths can be told by the release before them."""

from typing import Final

from streaming.broker import commands
from streaming.broker.events import Actor, Kind
from streaming.broker.handlers.access import Result, refuse_administration, vhost_name
from streaming.broker.shard_state import ShardState
from topology.refusals import no_queue, precondition_failed

MAX_REASON: Final = 1_024
"""The longest reason, in characters."""


def deployed(shard: ShardState, actor: Actor, command: commands.Deployed) -> Result:
    """Record a deployment beside the changes of the topology; the vhost stays as it is."""
    refusal = refuse_administration(shard, actor, "record deployments")
    if refusal is not None:
        return refusal
    for what, text in (("service", command.service), ("version", command.version)):
        if not text.strip() or not text.isprintable():
            return precondition_failed(f"the {what} of a deployment must be text, not {text!r}")
    if command.reason is not None and len(command.reason) > MAX_REASON:
        length = len(command.reason)
        return precondition_failed(
            f"the reason of a deployment has {length} characters, and {MAX_REASON} is the limit"
        )
    for name in command.queues:
        if name not in shard.context.vhost.queues:
            return no_queue(name, vhost_name(shard))
    detail = {"what": "deployed", "name": command.service, "version": command.version}
    more = {
        **({"queues": list(dict.fromkeys(command.queues))} if command.queues else {}),
        **({"reason": command.reason} if command.reason else {}),
    }
    shard.context.events.add(Kind.TOPOLOGY, detail={**detail, **more})
    return {}
