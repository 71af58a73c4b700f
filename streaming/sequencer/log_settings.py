"""The settings of logs that somebody else has made, or that were made with other limits.

A log with Kafka's defaults would lose records after a week, or refuse a message that a client may
send. A front corrects that before it begins, and does not begin where it cannot.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined] # not in its stubs

from streaming.config import JobConfig
from streaming.log_topics import log_topic_properties, majority
from streaming.topic_settings import alter_topic, read_settings
from topology.errors import DlxError

_AT_LEAST: Final = frozenset(
    {"max.message.bytes", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}
)
_MIN_INSYNC: Final = "min.insync.replicas"

logger = logging.getLogger(__name__)


class LogSettingsError(DlxError):
    """A log would not keep what the front writes."""

    help_code = "topic-limit"


def correct_logs(admin: Any, config: JobConfig, topics: Mapping[str, int]) -> None:
    """Give logs the settings that they must have.

    Args:
        topics: their names, and how many replicas each has.

    Raises:
        LogSettingsError: one has others, and Kafka does not let them be altered.
    """
    for topic, replicas in topics.items():
        found = _settings(admin, topic)
        _warn_of_loss(topic, replicas, found.get(_MIN_INSYNC))
        wrong = {
            name: value
            for name, value in log_topic_properties(config).items()
            if name in found and not _is_enough(name, found[name], value)
        }
        if wrong:
            _alter(admin, topic, found, wrong)


def _warn_of_loss(topic: str, replicas: int, in_sync: str | None) -> None:
    """Say if a record is confirmed before enough brokers have it: more is the operator's choice."""
    if in_sync is not None and int(in_sync) < majority(replicas):
        logger.warning(
            "the log %s has %d replicas, and Kafka confirms what %s of them has: if that broker is "
            "lost, so may be messages that were confirmed. Set it higher (kafka-configs --alter "
            "--topic %s --add-config %s=%d)",
            *(topic, replicas, in_sync, topic, _MIN_INSYNC, majority(replicas)),
        )


def _is_enough(name: str, found: str, wanted: str) -> bool:
    return int(found) >= int(wanted) if name in _AT_LEAST else found == wanted


def _settings(admin: Any, topic: str) -> dict[str, str]:
    """The settings of a topic that Kafka shows."""
    try:
        return read_settings(admin, ResourceType.TOPIC, topic)
    except KafkaException as error:
        logger.warning(
            "the settings of the log %s are unknown (%s). Let the front describe configs (Kafka's "
            "ACL operation DescribeConfigs)",
            *(topic, error.args[0].str()),
        )
        return {}


def _alter(admin: Any, topic: str, found: dict[str, str], wanted: dict[str, str]) -> None:
    was = ", ".join(f"{name} = {found[name]}" for name in wanted)
    try:
        alter_topic(admin, topic, wanted)
    except KafkaException as error:
        config = ",".join(f"{name}={value}" for name, value in wanted.items())
        raise LogSettingsError(
            f"the log {topic} has {was}, so Kafka would refuse, change or delete records of it, "
            f"and the front cannot correct that ({error.args[0].str().rstrip('.')}). Set them "
            f"(kafka-configs --alter --topic {topic} --add-config {config}), or let the front "
            f"alter the topic; a lower max.message.bytes may stay if kafka.max_message_bytes is as "
            f"low"
        ) from error
    is_now = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    logger.warning("the log %s had %s: now it has %s", topic, was, is_now)
