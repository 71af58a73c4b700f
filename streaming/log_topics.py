"""The topics of sequenced vhosts, as the job or the AMQP front makes them: who comes first does."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # not in its stubs

from streaming.config import JobConfig

ANY_TIME_MS: Final = str((1 << 63) - 1)
"""Kafka's bound of timestamps, lifted."""

FUTURE_MS: Final = str(7_900 * 365 * 86_400_000)
"""How far from now a timestamp may be: Spark fails at those beyond the year 294,247."""


def log_topic_settings(config: JobConfig, topic: str) -> NewTopic:
    """The log of a sequenced vhost, as it is created."""
    properties = log_topic_properties(config)
    if config.kafka.replication_factor > 1:
        most = majority(config.kafka.replication_factor)
        properties["min.insync.replicas"] = str(most)
    return new_topic(config, topic, 1, properties)


def majority(replicas: int) -> int:
    """How many must have a record before it is confirmed, as with RabbitMQ's quorum queues."""
    return replicas // 2 + 1


def log_topic_properties(config: JobConfig) -> dict[str, str]:
    """What a log must have: it keeps all records, and the timestamps of their writer."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": ANY_TIME_MS,
        "message.timestamp.after.max.ms": FUTURE_MS,
        "max.message.bytes": str(config.kafka.max_message_bytes),
    }


def new_topic(
    config: JobConfig, name: str, partitions: int, properties: Mapping[str, str]
) -> NewTopic:
    """A topic from which Kafka deletes whole segments, if any."""
    return NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=config.kafka.replication_factor,
        config={**properties, "cleanup.policy": "delete"},
    )
