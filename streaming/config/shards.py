"""What a shard of the broker gets from `dlx.toml`; the job and the AMQP front need the same."""

from hashlib import blake2b

import msgspec

from streaming.broker.config import CORE_VERSION, ShardConfig
from streaming.broker.sequence.log_fold import Terms
from streaming.config.model import JobConfig


def shard_config(
    config: JobConfig, vhost: str, lane: int = 0, outbound_from: int = 1
) -> ShardConfig:
    """The configuration of one lane of a vhost.

    Args:
        outbound_from: the least number of an outbound record; ignored for a sequenced vhost.
    """
    settings = config.vhosts[vhost]
    users = sorted(config.users.items())
    return ShardConfig(
        vhost=vhost,
        lane=lane,
        lanes=settings.lanes,
        compat=config.job.compat,
        clock="event" if settings.sequenced else config.job.clock,
        enforce_permissions=True,
        administrators=tuple(name for name, user in users if user.administrator),
        impersonators=tuple(name for name, user in users if user.impersonator),
        editors=tuple(name for name, user in users if user.edit_letters),
        default_delivery_limit=settings.default_delivery_limit,
        consumer_timeout_ms=settings.consumer_timeout_ms or None,
        outbound_from=1 if settings.sequenced else outbound_from,
        sequenced=settings.sequenced,
    )


def terms_of(config: ShardConfig) -> Terms:
    """The terms on which this program folds the log of a sequenced vhost."""
    rules = blake2b(msgspec.json.encode(config), digest_size=16)
    return Terms(CORE_VERSION, rules.hexdigest())
