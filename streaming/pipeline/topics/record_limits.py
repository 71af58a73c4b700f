"""The largest record that the outbound topics accept; limits that are too low are raised.

A topic may be older than the setting that asks for larger messages, or have Kafka's default. A
record too large for its topic would fail its batch at every attempt, so limits are raised before
the first batch (D11). Records that are still too large are truncated (`outbound.truncation`).
"""

import logging
from collections.abc import Iterable

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    ResourceType,
)

from streaming.config import JobConfig
from streaming.config.outbound import least_outbound_bytes, outbound_topic_bytes
from streaming.topic_settings import alter_topic, read_settings
from topology.errors import DlxError

MAX_MESSAGE_BYTES = "max.message.bytes"
SOCKET_BYTES = "socket.request.max.bytes"

BATCH_ROOM_BYTES = 1024
"""A topic's limit applies to batches, which have a header too."""
REQUEST_ROOM_BYTES = 65_536
"""Bytes of a request to Kafka without its records."""

logger = logging.getLogger(__name__)


class TopicLimitError(DlxError):
    """An outbound topic does not accept the messages that the inputs accept."""

    help_code = "topic-limit"


def outbound_record_bytes(
    admin: AdminClient, config: JobConfig, topics: Iterable[str], brokers: Iterable[int]
) -> int:
    """Return the largest record that every outbound topic accepts, after raising low limits.

    Raises:
        TopicLimitError: a topic's limit is below the largest body and cannot be raised.
    """
    wanted = outbound_topic_bytes(config.flow, config.kafka)
    least = least_outbound_bytes(config.flow)
    limits = []
    for topic in sorted(set(topics)):
        text = read_setting(admin, ResourceType.TOPIC, topic, MAX_MESSAGE_BYTES)
        found = None if text is None else int(text)
        if found is None:
            logger.warning(
                "outbound.topic: %s of %r is unknown; it should be at least %d. Let the job "
                "describe configs (Kafka's ACL operation DescribeConfigs)",
                MAX_MESSAGE_BYTES,
                topic,
                wanted,
            )
        else:
            limits.append(found if found >= wanted else _raised(admin, topic, found, wanted, least))
    sockets = [
        read_setting(admin, ResourceType.BROKER, str(broker), SOCKET_BYTES) for broker in brokers
    ]
    requests = [int(each) - REQUEST_ROOM_BYTES for each in sockets if each is not None]
    return min([min(limits, default=wanted) - BATCH_ROOM_BYTES, *requests])


def _raised(admin: AdminClient, topic: str, found: int, wanted: int, least: int) -> int:
    """Raise the limit of a topic; return the limit it has afterwards."""
    try:
        alter_topic(admin, topic, {MAX_MESSAGE_BYTES: str(wanted)})
    except KafkaException as error:
        reason = error.args[0].str().rstrip(".")
        if found < least:
            raise TopicLimitError(
                f"outbound.topic: {topic!r} has {MAX_MESSAGE_BYTES} = {found}, but a message of "
                f"flow.max_body_bytes needs {least} with its headers, and the job cannot raise the "
                f"limit ({reason}). Set it to {wanted} (kafka-configs --alter --topic {topic} "
                f"--add-config {MAX_MESSAGE_BYTES}={wanted}), let the job alter it, or lower "
                "flow.max_body_bytes"
            ) from error
        logger.warning(
            "outbound.topic: %r has %s = %d, and the job cannot raise it to %d (%s): larger "
            "records will be truncated",
            topic,
            MAX_MESSAGE_BYTES,
            found,
            wanted,
            reason,
        )
        return found
    logger.warning(
        "outbound.topic: raised %s of %r from %d to %d, the size that the job may need",
        MAX_MESSAGE_BYTES,
        topic,
        found,
        wanted,
    )
    return wanted


def read_setting(admin: AdminClient, kind: ResourceType, name: str, setting: str) -> str | None:
    """Return a setting of a topic or broker; None if Kafka does not show it."""
    try:
        return read_settings(admin, kind, name).get(setting)
    except KafkaException as error:
        logger.info("%s of %r is unknown: %s", setting, name, error.args[0].str())
        return None
