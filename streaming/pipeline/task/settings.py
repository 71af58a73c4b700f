"""The settings that the driver gives to every task of a job: plain values that pickle."""

from collections.abc import Callable, Mapping

import msgspec

from streaming.broker.config import ShardConfig
from streaming.config import JobConfig
from streaming.config.inputs import TopicMapping
from streaming.ledger.storage import Place


class TopicTask(msgspec.Struct, frozen=True):
    """One input topic: its number (D3), the user its records act as, and its mapping."""

    number: int
    user: str
    mapping: TopicMapping | None = None


class OutboundTask(msgspec.Struct, frozen=True):
    """Where outbound records go: (vhost, user) -> topic, and the producer's properties.

    Attributes:
        record_bytes: the largest record that all the topics accept.
    """

    topics: dict[tuple[str, str], str]
    producer: dict[str, str | int | float | bool] = {}
    record_bytes: int = 1_000_000


class TaskSettings(msgspec.Struct, frozen=True):
    """The settings of all stages of one job.

    Attributes:
        vhosts: the grouping key of each lane, by vhost.
        shards: the broker's configuration by grouping key.
    """

    tables: Place
    topics: dict[str, TopicTask]
    vhosts: dict[str, tuple[int, ...]]
    shards: dict[int, ShardConfig]
    outbound: OutboundTask
    max_body_bytes: int
    max_header_bytes: int


def task_settings(
    config: JobConfig,
    tables: Place,
    topic_numbers: Mapping[str, int],
    shard_key: Callable[[str, int], int],
    producer: Mapping[str, str],
    record_bytes: int,
) -> TaskSettings:
    """Build the settings; `shard_key` returns the grouping key of (vhost, lane)."""
    vhosts: dict[str, tuple[int, ...]] = {}
    shards: dict[int, ShardConfig] = {}
    administrators = sorted(name for name, user in config.users.items() if user.administrator)
    for name, vhost in config.vhosts.items():
        vhosts[name] = tuple(shard_key(name, lane) for lane in range(vhost.lanes))
        for lane, key in enumerate(vhosts[name]):
            shards[key] = ShardConfig(
                vhost=name,
                lane=lane,
                lanes=vhost.lanes,
                compat=config.job.compat,
                clock=config.job.clock,
                enforce_permissions=True,
                administrators=tuple(administrators),
                default_delivery_limit=vhost.default_delivery_limit,
                consumer_timeout_ms=vhost.consumer_timeout_ms or None,
            )
    properties: dict[str, str | int | float | bool] = {
        **producer,
        "message.max.bytes": record_bytes,
        "enable.idempotence": True,
        "linger.ms": 5,
        "log_level": 0,
    }
    return TaskSettings(
        tables=tables,
        topics={
            each.topic: TopicTask(topic_numbers[each.topic], each.user, each.mapping)
            for each in config.inputs
        },
        vhosts=vhosts,
        shards=shards,
        outbound=OutboundTask(config.outbound_topics(), properties, record_bytes),
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
    )
