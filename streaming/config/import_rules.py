"""What a job would refuse to import when it starts: found before it starts.

The import is a command like any other: of the user of the first commands input, into a vhost with
its number of lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.config import ShardConfig
from streaming.broker.lanes import refuse_on_lanes, refuse_policy_on_lanes
from topology.policies import PolicyTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.config.model import JobConfig
    from topology.declarations import Definitions


def import_problems(config: JobConfig, vhost: str, definitions: Definitions) -> Iterator[str]:
    """Why a job of this configuration would refuse definitions, in words; nothing if it would not.

    Args:
        definitions: valid by themselves (`topology.validation.problems`).
    """
    importing = [each.user for each in config.inputs if each.source == "commands"][:1]
    for user in importing:
        if not config.users[user].administrator:
            yield (
                f"are imported by {user!r}, the user of the first commands input, who is no "
                "administrator (`administrator = true`)"
            )
    settings = config.vhosts[vhost]
    shard = ShardConfig(vhost=vhost, lanes=settings.lanes, compat=config.job.compat)
    table = PolicyTable()
    for policies, operator in (
        (definitions.policies, False),
        (definitions.operator_policies, True),
    ):
        table.load(policies, operator=operator)
        for policy in policies:
            refusal = refuse_policy_on_lanes(policy, shard)
            if refusal is not None:
                yield f"policy {policy.name!r}: {refusal.text}"
    for queue in definitions.queues:
        refusal = refuse_on_lanes(table.queue_settings(queue, shard.compat), queue, shard)
        if refusal is not None:
            yield f"queue {queue.name!r}: {refusal.text}"
