"""How long the deliveries of a queue may be unsettled."""

from streaming.broker.config import ShardConfig
from streaming.broker.message import NEVER
from topology.policies import QueueSettings


def timeout_ms(config: ShardConfig, settings: QueueSettings) -> int:
    """The consumer timeout of a queue, or that of its vhost (R-SET-13); NEVER if there is none.

    It may be 0 or less: then a delivery times out as soon as time passes.
    """
    if config.ignores_timeouts:
        return NEVER
    if settings.consumer_timeout_ms is not None:
        return settings.consumer_timeout_ms
    return NEVER if config.consumer_timeout_ms is None else config.consumer_timeout_ms
