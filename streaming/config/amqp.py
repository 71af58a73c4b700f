"""`[amqp]`: the front of sequenced vhosts, `dlx amqp`, and the log it writes."""

from typing import Final

import attrs

from streaming.config import types
from streaming.protocol.addressing import escaped

DEFAULT_LOG: Final = "dlx.log.{vhost}"


def _pattern_fault(pattern: str) -> str | None:
    if pattern.count("{vhost}") != 1:
        return "must contain {vhost} once"
    return types.topic_fault(log_topic(pattern, "x"))


def log_topic(pattern: str, vhost: str) -> str:
    """The log of a sequenced vhost."""
    return pattern.replace("{vhost}", escaped(vhost))


@attrs.frozen(kw_only=True)
class AmqpSettings(types.Section):
    """The front of sequenced vhosts."""

    log_topic: str = types.setting(
        DEFAULT_LOG,
        "The topic with the log of each sequenced vhost. In the name of the vhost, characters "
        'other than letters, digits and "-" become _ and two hex digits. Only the front may write '
        "to it, so restrict access with Kafka's ACLs.",
        types.text(_pattern_fault, "a topic name that contains {vhost} once"),
        outcome=True,
    )
