"""Orders are numbered on from run to run: Kafka knows how many records there were."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from streaming.kafka_offsets import once_led

KAFKA_TIMEOUT_S: Final = 5.0


def first_number(properties: Mapping[str, Any], topic: str) -> int:
    """The number of the first order of this run: how many records a topic has had."""
    asking = Consumer({**properties, "group.id": "dlx-demo", "log_level": 0})
    try:
        place = TopicPartition(topic, 0)
        _low, high = once_led(
            lambda: asking.get_watermark_offsets(place, timeout=KAFKA_TIMEOUT_S), KAFKA_TIMEOUT_S
        )
        return int(high)
    finally:
        asking.close()
