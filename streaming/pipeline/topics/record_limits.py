"""How large an outbound record may be: what the outbound topics take, raised where it is too small.

A topic may be older than the setting that asks for larger messages, or made by somebody with
Kafka's default. A record that is too large for its topic would fail its batch at every attempt, so
this is settled before the first batch (D11); what may still be too large goes out cut
(`outbound_fit.py`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from streaming.config.outbound import least_outbound_bytes, outbound_topic_bytes
from topology.errors import DlxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.config import JobConfig

MAX_MESSAGE_BYTES = "max.message.bytes"
SOCKET_BYTES = "socket.request.max.bytes"

BATCH_ROOM_BYTES = 1024
"""A topic's limit is on batches, which have a header too."""
REQUEST_ROOM_BYTES = 65_536
"""What a request to Kafka has beside its records."""

_TIMEOUT_S = 30

logger = logging.getLogger(__name__)


class TopicLimitError(DlxError):
    """An outbound topic does not take the messages that the inputs take."""


def outbound_record_bytes(
    admin: AdminClient, config: JobConfig, topics: Iterable[str], brokers: Iterable[int]
) -> int:
    """The largest record that every outbound topic takes; topics that take less are raised.

    Args:
        topics: the outbound topics; they exist.
        brokers: their ids.

    Raises:
        TopicLimitError: a topic is too small for the largest body and cannot be raised.
    """
    wanted = outbound_topic_bytes(config.flow, config.kafka)
    least = least_outbound_bytes(config.flow)
    limits = []
    for topic in sorted(set(topics)):
        found = _setting(admin, ResourceType.TOPIC, topic, MAX_MESSAGE_BYTES)
        if found is None:
            logger.warning(
                "outbound.topic: the %s of %r is not to be had: let the job describe configs "
                "(Kafka's ACL operation DescribeConfigs); it should be at least %d",
                MAX_MESSAGE_BYTES,
                topic,
                wanted,
            )
            continue
        limits.append(found if found >= wanted else _raised(admin, topic, found, wanted, least))
    most = min(limits, default=wanted) - BATCH_ROOM_BYTES
    sockets = [
        _setting(admin, ResourceType.BROKER, str(broker), SOCKET_BYTES) for broker in brokers
    ]
    return min(most, *(each - REQUEST_ROOM_BYTES for each in sockets if each is not None), most)


def _raised(admin: AdminClient, topic: str, found: int, wanted: int, least: int) -> int:
    """Raise the limit of a topic; what it is then."""
    change = ConfigEntry(
        MAX_MESSAGE_BYTES, str(wanted), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    asked = admin.incremental_alter_configs([resource], request_timeout=_TIMEOUT_S)
    try:
        for future in asked.values():
            future.result()
    except KafkaException as error:
        why = error.args[0].str().rstrip(".")
        if found < least:
            raise TopicLimitError(
                f"outbound.topic: {topic!r} has {MAX_MESSAGE_BYTES} = {found}, less than the "
                f"{least} of a message of flow.max_body_bytes with its headers, and it cannot be "
                f"raised ({why}). Set it to {wanted} (kafka-configs --alter --topic {topic} "
                f"--add-config {MAX_MESSAGE_BYTES}={wanted}), let the job alter it, or lower "
                "flow.max_body_bytes"
            ) from error
        logger.warning(
            "outbound.topic: %r has %s = %d, and it cannot be raised to %d (%s): larger records go "
            "out cut",
            topic,
            MAX_MESSAGE_BYTES,
            found,
            wanted,
            why,
        )
        return found
    logger.warning(
        "outbound.topic: %s of %r was %d, too small for what the job may send; it is %d now",
        MAX_MESSAGE_BYTES,
        topic,
        found,
        wanted,
    )
    return wanted


def _setting(admin: AdminClient, kind: ResourceType, name: str, setting: str) -> int | None:
    """A number in the configuration of a topic or broker; None if it is not to be had."""
    resource = ConfigResource(kind, name)
    [future] = admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
    try:
        found = future.result().get(setting)
    except KafkaException:
        return None
    return None if found is None or found.value is None else int(found.value)
