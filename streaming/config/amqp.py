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
    leaders_topic: str = types.setting(
        "dlx.leaders",
        "The topic in which fronts say that they lead a vhost, every half second.",
        types.text(types.topic_fault, "a topic name"),
    )
    takeover_ms: int = types.setting(
        3_000,
        "How long the leader of a vhost is silent before a standby takes over.",
        types.milliseconds(1_000, types.HOUR_MS),
    )
    body_cache_bytes: int = types.setting(
        268_435_456,
        "How much of the messages of each vhost the front keeps in memory: 256 MiB. It reads "
        "others from the log when they are delivered.",
        types.size(1_048_576, 1 << 40),
    )
    management_port: int = types.setting(
        15_672,
        "Where the front serves RabbitMQ's management API, on the address of `dlx amqp --host`: "
        "the port that RabbitMQ has for it. 0: nowhere.",
        types.whole(0, 65_535),
    )
    metrics_port: int = types.setting(
        15_692,
        "Where the front answers Prometheus and health checks, on the address of `dlx amqp "
        "--host`: the port that RabbitMQ has for it. 0: nowhere. It needs no password and shows "
        "the names of queues.",
        types.whole(0, 65_535),
    )
    snapshot_records: int = types.setting(
        200_000,
        "The front writes a snapshot of its state after this many records of a log, so that the "
        "next start reads few of them; also when it stops.",
        types.whole(1_000, 1_000_000_000),
    )
    trim_log: bool = types.setting(
        True,  # noqa: FBT003 - the default, as in any other setting
        "Whether the job deletes records from the logs, every `kafka.trim_interval_ms`: those that "
        "it has committed, that are of no message in a queue, and that no start of the front from "
        "a snapshot needs. Without a snapshot, nothing is deleted.",
        types.flag(),
    )
    log_retention_ms: int = types.setting(
        604_800_000,
        "How long a log keeps its records at least: 7 days. The front redrives letters that are in "
        "no queue any more from the log, so not those of messages that are older.",
        types.milliseconds(),
    )
    max_lag_ms: int = types.setting(
        60_000,
        "Publishers wait while the job is so far behind the front in time: 60 seconds. They go on "
        "when it is half. Settlements pass. Only while a job follows the log. 0: they never wait "
        "for it.",
        types.milliseconds(),
    )
    max_lag_bytes: int = types.setting(
        1_073_741_824,
        "Publishers wait while the job is so far behind the front in bytes of the log: 1 GiB. They "
        "go on when it is half. 0: they never wait for it.",
        types.size(0, 1 << 50),
    )
