"""The settings of topics and brokers, as Kafka shows them and lets them be altered."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

_ANSWER_S: Final = 30


def read_settings(admin: Any, kind: ResourceType, name: str) -> dict[str, str]:
    """Return the settings of a topic or broker that Kafka shows.

    Args:
        admin: an AdminClient.

    Raises:
        KafkaException: it shows none.
    """
    resource = ConfigResource(kind, name)
    [asked] = admin.describe_configs([resource], request_timeout=_ANSWER_S).values()
    shown = asked.result()
    return {key: str(entry.value) for key, entry in shown.items() if entry.value is not None}


def alter_topic(admin: Any, topic: str, wanted: Mapping[str, str]) -> None:
    """Give a topic these settings; the others stay.

    Args:
        admin: an AdminClient.

    Raises:
        KafkaException: Kafka does not let them be altered.
    """
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    [asked] = admin.incremental_alter_configs([resource], request_timeout=_ANSWER_S).values()
    asked.result()
