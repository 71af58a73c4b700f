"""Kafka's ids of topics, which tell a topic from an earlier one of its name."""

from collections.abc import Collection
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicCollection


class KnownTopic(NamedTuple):
    """What Kafka says of a topic.

    Attributes:
        partitions: how many it has.
    """

    topic_id: str
    partitions: int


def describe_topics(
    admin: Any, names: Collection[str], timeout_s: float
) -> dict[str, KnownTopic | KafkaException]:
    """Ask for some topics.

    Args:
        admin: an AdminClient.

    Returns:
        Its name -> the topic, or why Kafka does not describe it.
    """
    if not names:
        return {}
    asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)
    found: dict[str, KnownTopic | KafkaException] = {}
    for name, answer in asked.items():
        try:
            topic = answer.result()
        except KafkaException as error:
            found[name] = error
        else:
            found[name] = KnownTopic(str(topic.topic_id), len(topic.partitions))
    return found


def describe_topic(admin: Any, name: str, timeout_s: float) -> KnownTopic:
    """Ask for a topic; see `describe_topics`.

    Raises:
        KafkaException: Kafka does not describe it.
    """
    [found] = describe_topics(admin, [name], timeout_s).values()
    if isinstance(found, KafkaException):
        raise found
    return found


def topic_identity(cluster_id: str, topic_id: str) -> str:
    """What names a topic for ever, on whichever cluster."""
    return f"{cluster_id}/{topic_id}"


def ids_in(identity: str) -> tuple[str, str]:
    """The ids of the cluster and of the topic; see `topic_identity`."""
    cluster_id, topic_id = identity.split("/", 1)
    return cluster_id, topic_id
