"""Trims what the job reads: deletes records from Kafka that are no longer needed (D3).

The topics that the job creates keep everything (`retention.ms = -1`), so an outage of any length
loses nothing. From time to time, the job deletes records that Spark has committed and that belong
to no message in a queue; and only what the fronts of sequenced vhosts have read, if they read the
topic, too. With `clock = event` it deletes nothing: logs are there to be replayed.

The log of a sequenced vhost has a second reader, its front, which begins with one of its snapshots.
They say what such a start needs. Only the job trims logs: before it has read a log, nobody may.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    OffsetSpec,
    ResourceType,
)

from streaming.config import JobConfig
from streaming.contents.lowest_resident import Lowest
from streaming.pipeline.checkpoint.spark_logs import Positions
from streaming.pipeline.topics.record_limits import read_setting
from streaming.sequencer.snapshots import LogIdentity, OtherLogError, Snapshots
from streaming.storage.location import AnyPath
from streaming.topic_ids import ids_in

KEEPS_ALL = "-1"
_TIMEOUT_S = 30

logger = logging.getLogger(__name__)


class Trimming:
    """Deletes old records from what the job reads, unless Kafka deletes them by itself.

    Args:
        admin: an AdminClient.
        topics: `CLUSTER_ID/TOPIC_ID` -> name.
        numbers: name -> number.
        checkpoint: fronts have their snapshots there.
    """

    def __init__(
        self,
        config: JobConfig,
        admin: Any,
        topics: Mapping[str, str],
        numbers: Mapping[str, int],
        checkpoint: AnyPath,
    ) -> None:
        self._admin = admin
        self._numbers = numbers
        self._own = [each.topic for each in config.inputs if each.mapping is None]
        self._copied = {each.topic for each in config.inputs if each.may_be_copied}
        self._logs = list(config.log_topics().values())
        self._log_retention_ms = config.amqp.log_retention_ms
        self._snapshots: dict[str, Snapshots] = {}
        if config.amqp.trim_log:
            vhosts = {topic: vhost for vhost, topic in config.log_topics().items()}
            for identity, topic in topics.items():
                if topic in vhosts:
                    log = LogIdentity(vhosts[topic], topic, *ids_in(identity))
                    self._snapshots[topic] = Snapshots(checkpoint, log)
        self._keeps_all: dict[str, bool] = {}
        self._done: dict[tuple[str, int], int] = {}

    def trim(self, lowest: Lowest, committed: Positions) -> int:
        """Delete committed records below `lowest`; return how many partitions were trimmed."""
        due = []
        read = [self._read_by_front(log) for log in self._logs]
        for topic in self._topics_without_retention([*self._own, *self._snapshots]):
            for partition, end in committed.get(topic, {}).items():
                place = (topic, int(partition))
                bound = lowest.get((self._numbers[topic], int(partition)))
                if bound is None:
                    continue
                offset = min(bound, int(end))
                if topic in self._snapshots:
                    offset = min(offset, self._needed_from(topic))
                if topic in self._copied:
                    offset = min([offset, *(each.get(place, 0) for each in read)])
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
                    "inputs: records of topic %r, partition %d could not be trimmed: %s",
                    low.topic,
                    low.partition,
                    error.args[0].str(),
                )
                continue
            self._done[(low.topic, low.partition)] = low.offset
            trimmed += 1
        return trimmed

    def _needed_from(self, log: str) -> int:
        """The first offset of a log that its front needs, or that is too young."""
        try:
            needed = self._snapshots[log].needed_from()
        except (OtherLogError, OSError) as error:
            logger.warning("the log %r is not trimmed: %s", log, error)
            return 0
        since_ms = round(time.time() * 1000) - self._log_retention_ms
        place = TopicPartition(log, 0)
        spec = {place: OffsetSpec.for_timestamp(since_ms)}
        asked = self._admin.list_offsets(spec, request_timeout=_TIMEOUT_S)
        try:
            young = asked[place].result().offset
        except KafkaException as error:
            logger.warning("the log %r is not trimmed: %s", log, error.args[0].str())
            return 0
        return needed if young < 0 else min(needed, young)  # -1: there is none that is younger

    def _read_by_front(self, log: str) -> dict[tuple[str, int], int]:
        """How far the front of a sequenced vhost has read the inputs; empty if it is not known."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(log)], request_timeout=_TIMEOUT_S
        )
        try:
            places = asked[log].result().topic_partitions or []
        except KafkaException as error:
            logger.warning(
                "inputs: how far the front of %r has read is unknown, so they are not trimmed: %s",
                *(log, error.args[0].str()),
            )
            return {}
        return {(each.topic, each.partition): max(each.offset, 0) for each in places}

    def _topics_without_retention(self, topics: list[str]) -> list[str]:
        """Return those of the topics that keep all records.

        Answers are cached; a topic that could not be described is tried again the next time.
        """
        for topic in topics:
            if topic in self._keeps_all:
                continue
            retention = read_setting(self._admin, ResourceType.TOPIC, topic, "retention.ms")
            if retention is None:  # do not delete from a topic that may not be ours
                logger.warning(
                    "inputs: topic %r is not trimmed, because its retention.ms is unknown", topic
                )
            else:
                self._keeps_all[topic] = retention == KEEPS_ALL
        return [topic for topic in topics if self._keeps_all.get(topic, False)]
