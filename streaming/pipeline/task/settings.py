"""From the configuration to what the tasks are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.config import ShardConfig
from streaming.pipeline.task.context import OutboundTask, TaskSettings, TopicTask, VhostTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.config import JobConfig
    from streaming.ledger.storage import Place
    from streaming.pipeline.checkpoint.manifest import JobFile
    from streaming.pipeline.topics.admin import KafkaTopics


def task_settings(
    config: JobConfig,
    tables: Place,
    numbers: JobFile,
    topics: KafkaTopics,
    producer: Mapping[str, str],
) -> TaskSettings:
    """What the stages of this job need; new topics and shards get their numbers.

    Args:
        tables: root of the tables.
        producer: librdkafka properties of the outbound producer; may hold secrets.
    """
    vhosts: dict[str, VhostTask] = {}
    shards: dict[int, ShardConfig] = {}
    administrators = tuple(
        sorted(name for name, user in config.users.items() if user.administrator)
    )
    for name, vhost in config.vhosts.items():
        keys = tuple(numbers.shard_key(name, lane) for lane in range(vhost.lanes))
        vhosts[name] = VhostTask(keys)
        for lane, key in enumerate(keys):
            shards[key] = ShardConfig(
                vhost=name,
                lane=lane,
                lanes=vhost.lanes,
                compat=config.job.compat,
                clock=config.job.clock,
                enforce_permissions=True,
                administrators=administrators,
                default_delivery_limit=vhost.default_delivery_limit,
                consumer_timeout_ms=vhost.consumer_timeout_ms or None,
            )
    return TaskSettings(
        tables=tables,
        topics={
            each.topic: TopicTask(
                numbers.topic_number(topics.identities[each.topic], each.topic),
                each.user,
                each.mapping,
            )
            for each in config.inputs
        },
        vhosts=vhosts,
        shards=shards,
        outbound=OutboundTask(
            config.outbound_topics(),
            {
                **producer,
                "message.max.bytes": topics.record_bytes,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            },
            topics.record_bytes,
        ),
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
    )
