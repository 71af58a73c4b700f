"""What a vhost with several lanes does not support yet; it is refused with 540 (D2)."""

from collections.abc import Mapping

from streaming.broker.config import ShardConfig
from topology.declarations import Policy, Queue
from topology.policies import QueueSettings
from topology.refusals import Refusal

BROADCAST_OPS = frozenset(
    {
        "declare_exchange",
        "declare_queue",
        "delete_exchange",
        "delete_queue",
        "bind",
        "unbind",
        "set_policy",
        "set_operator_policy",
        "clear_policy",
        "clear_operator_policy",
        "set_permissions",
        "clear_permissions",
        "import_definitions",
        "purge",
        "redrive",
        "control_redrive",
        "tick",
    }
)
"""Commands that are sent to every lane of a vhost (D2)."""

NOT_IMPLEMENTED = 540


def refuse_on_lanes(settings: QueueSettings, queue: Queue, config: ShardConfig) -> Refusal | None:
    """540 if the queue cannot be in a vhost with this number of lanes."""
    if config.lanes == 1:
        return None
    if settings.expires_ms is not None:
        return not_on_lanes(config, "queue expiry")
    if queue.auto_delete:
        return not_on_lanes(config, "auto-delete queues")
    if queue.exclusive:
        return not_on_lanes(config, "exclusive queues")
    return _refuse_limits(
        {"max-length": settings.max_length, "max-length-bytes": settings.max_length_bytes}, config
    )


def refuse_policy_on_lanes(policy: Policy, config: ShardConfig) -> Refusal | None:
    """540 if the policy cannot be in a vhost with this number of lanes, whatever it matches."""
    if config.lanes == 1:
        return None
    if "expires" in policy.definition:
        return not_on_lanes(config, "queue expiry")
    return _refuse_limits(policy.definition, config)


def _refuse_limits(limits: Mapping[str, object], config: ShardConfig) -> Refusal | None:
    for name in ("max-length", "max-length-bytes"):
        limit = limits.get(name)
        if isinstance(limit, int) and limit < config.lanes:
            return not_on_lanes(config, f"a {name} of {limit}, smaller than the number of lanes,")
    return None


def not_on_lanes(config: ShardConfig, what: str) -> Refusal:
    """540: this does not work with several lanes."""
    return Refusal(
        NOT_IMPLEMENTED,
        f"NOT_IMPLEMENTED - {what} cannot be used in vhost '{config.vhost}', which has "
        f"{config.lanes} lanes",
    )
