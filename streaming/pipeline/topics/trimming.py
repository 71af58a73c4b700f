"""Trimming the job's own inputs: records that nobody needs any more are deleted from Kafka (D3).

The topics that the job makes keep everything (`retention.ms = -1`), so that an outage of any length
loses nothing. What was read, was committed by Spark too, and is of no message in any queue is
deleted from time to time. With `clock = event` nothing is: logs are there to be replayed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    ConfigResource,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.config import JobConfig
    from streaming.contents.lowest_resident import Lowest

KEEPS_ALL = "-1"
_TIMEOUT_S = 30

logger = logging.getLogger(__name__)


class Trimming:
    """Deletes what is not needed from the inputs that nothing else deletes from.

    Args:
        properties: librdkafka's; may hold secrets.
        numbers: topic -> its number.
    """

    def __init__(
        self, config: JobConfig, properties: Mapping[str, str], numbers: Mapping[str, int]
    ) -> None:
        self._admin = AdminClient({**properties, "log_level": 0})
        self._numbers = numbers
        self._own = [each.topic for each in config.inputs if each.mapping is None]
        self._kept: dict[str, bool] = {}
        self._done: dict[tuple[str, int], int] = {}

    def trim(self, lowest: Lowest, committed: Mapping[str, Mapping[str, int]]) -> int:
        """Delete records below both bounds; returns how many partitions were trimmed.

        Args:
            lowest: from where on messages may be in queues.
            committed: topic -> partition -> end of the last batch that Spark will not run again.
        """
        due = []
        for topic in self._kept_for_ever():
            for partition, end in committed.get(topic, {}).items():
                place = (topic, int(partition))
                bound = lowest.get((self._numbers[topic], int(partition)))
                if bound is None:
                    continue
                offset = min(bound, int(end))
                if offset > self._done.get(place, 0):
                    due.append(TopicPartition(*place, offset))
        if not due:
            return 0
        trimmed = 0
        for low, future in self._admin.delete_records(due, request_timeout=_TIMEOUT_S).items():
            try:
                future.result()
            except KafkaException as error:
                logger.warning(
                    "%s, partition %d: records could not be trimmed: %s",
                    low.topic,
                    low.partition,
                    error.args[0].str(),
                )
                continue
            self._done[(low.topic, low.partition)] = low.offset
            trimmed += 1
        return trimmed

    def _kept_for_ever(self) -> list[str]:
        """Own inputs without a retention; one that has its own is left to it.

        An answer is remembered; where there was none, the next time asks again.
        """
        for topic in self._own:
            if topic not in self._kept:
                retention = self._retention(topic)
                if retention is not None:
                    self._kept[topic] = retention == KEEPS_ALL
        return [topic for topic in self._own if self._kept.get(topic, False)]

    def _retention(self, topic: str) -> str | None:
        """What Kafka says of a topic; None if it does not say."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        [future] = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
        try:
            found = future.result().get("retention.ms")
        except KafkaException as error:  # nothing is deleted from what may not be ours to delete
            logger.warning(
                "%s is not trimmed: its retention.ms is not to be had: %s",
                topic,
                error.args[0].str(),
            )
            return None
        return None if found is None else str(found.value)
