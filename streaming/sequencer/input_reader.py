"""Reads the inputs that one vhost is fed from, from where its log has their records.

It reads what is committed, like the job. How far the log has them is committed to Kafka for the
group that has the name of the log, so that the job does not trim what is still to be copied; where
a front begins, the log alone says.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streaming.kafka_headers import headers_of
from streaming.protocol.copied_records import Source
from streaming.sequencer.copied_positions import CopiedPositions
from streaming.sequencer.input_place import Bounds, InputPlace
from streaming.sequencer.input_records import InputRecord
from streaming.topic_ids import describe_topics

MAX_RECORDS: Final = 500
"""The most records of one read."""

_LOOK_S: Final = 5.0
"""How often it looks for topics and partitions that it does not know."""

_NOT_THERE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
"""Kafka says the latter of a topic that the front may not know of: others are copied."""

_ANSWER_S: Final = 10.0

_OUT_OF_RANGE: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - how the library names librdkafka's codes
    }
)

PartitionKey = tuple[str, int]
"""A topic and the number of a partition."""

logger = logging.getLogger(__name__)


class InputReader:
    """Reads some topics. Use it on one thread at a time.

    Args:
        properties: of librdkafka.
        admin: an AdminClient.
        log: the topic of the log.
        positions: how far they were copied.
        accepts_loss: go on with topics as they are, whatever is missing.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        admin: Any,
        log: str,
        topics: Collection[str],
        positions: CopiedPositions,
        *,
        accepts_loss: bool = False,
    ) -> None:
        settings: dict[str, Any] = {
            **properties,
            "group.id": log,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # at the start again, all would be copied twice
            "isolation.level": "read_committed",
            "log_level": 0,
            "error_cb": lambda _error: None,
        }
        self._consumer = Consumer(settings)
        self._log = log
        self._topics = topics
        self._positions = positions
        self._accepts_loss = accepts_loss
        self._admin = admin
        self._ids: dict[str, str] = {}
        self._moved: list[Source] = []
        self._next: dict[PartitionKey, int] = {}
        self._reached: dict[PartitionKey, int] = {}  # of those that are out of range
        self._looked_s = float("-inf")
        self._fault: str | None = None

    def read(self, timeout_s: float) -> list[InputRecord]:
        """The next records, in the order of each partition; none if none comes in time.

        Raises:
            InputChangedError: a topic is not the one that was copied.
        """
        if time.monotonic() - self._looked_s > _LOOK_S:
            self._look()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        found = []
        for message in (first, *self._consumer.consume(MAX_RECORDS - 1, 0)):
            error = message.error()
            if error is None:
                record = _record(message, self._ids)
                source = record.source
                self._next[source.topic, source.partition] = source.offset + 1
                found.append(record)
            elif error.code() in _OUT_OF_RANGE:
                self._begin_again(message)
        return found

    def _begin_again(self, message: Message) -> None:
        """Look where to go on in a partition that has no record any more where it was read."""
        topic, partition = message.topic(), message.partition()
        assert topic is not None, "such an error is of a partition"
        assert partition is not None, "such an error is of a partition"
        reached = self._next.pop((topic, partition), None)
        if reached is not None:
            self._reached[topic, partition] = reached
        self._looked_s = float("-inf")

    def take_moved(self) -> list[Source]:
        """Remove and return what the log must say before anything else is copied."""
        moved, self._moved = self._moved, []
        return moved

    def copied(self, ends: Mapping[PartitionKey, int]) -> None:
        """Tell Kafka, and so the job, that the log has what is before these offsets."""
        places = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
        with suppress(KafkaException):  # the next ones are committed, too
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _look(self) -> None:
        """Begin with partitions that were not known."""
        try:
            new = [
                (topic, partition)
                for topic, partitions in self._know().items()
                for partition in range(partitions)
                if (topic, partition) not in self._next
            ]
            begins = {place: self._begin(*place) for place in new}
        except KafkaException as error:
            self._note(error.args[0].str())
            return  # it is tried again with the next read
        self._note(None)
        self._looked_s = time.monotonic()
        if begins:
            self._next |= begins
            self._consumer.assign([TopicPartition(*place, at) for place, at in self._next.items()])

    def _note(self, fault: str | None) -> None:
        """Say once why inputs cannot be read."""
        if fault is not None and self._fault is None:
            logger.warning(
                "nothing is copied into %s now, since inputs (%s) cannot be read: %s. It is tried "
                "again. Does Kafka answer, and may the front read them?",
                *(self._log, ", ".join(sorted(self._topics)), fault),
            )
        elif fault is None and self._fault is not None:
            logger.warning("inputs are copied into %s again", self._log)
        self._fault = fault

    def _know(self) -> dict[str, int]:
        """Ask for the topics, and compare the ids of those that are known.

        Returns:
            Each that is there -> how many partitions it has.
        """
        found = {}
        for topic, known in describe_topics(self._admin, self._topics, _ANSWER_S).items():
            if isinstance(known, KafkaException):
                if known.args[0].code() in _NOT_THERE:
                    continue
                raise known
            topic_id = known.topic_id
            was = self._ids.get(topic)
            if was not in (None, topic_id):
                raise self._place(topic, 0).was_made_again(was, topic_id)
            self._ids[topic] = topic_id
            found[topic] = known.partitions
        return found

    def _place(self, topic: str, partition: int) -> InputPlace:
        return InputPlace(self._log, topic, partition, accepts_loss=self._accepts_loss)

    def _begin(self, topic: str, partition: int) -> int:
        first, end = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=_ANSWER_S
        )
        copied, topic_id = self._positions.next_of(topic, partition), self._ids[topic]
        wanted = self._reached.get((topic, partition), copied)
        was = self._positions.id_of(topic)
        begin = self._place(topic, partition).begin(
            Bounds(first, end, partial(self._committed, topic, partition)), wanted, (was, topic_id)
        )
        if copied is not None and (was != topic_id or begin < copied):
            self._moved.append(Source(topic, partition, begin - 1, topic_id))
        return begin

    def _committed(self, topic: str, partition: int) -> int:
        [place] = self._consumer.committed([TopicPartition(topic, partition)], timeout=_ANSWER_S)
        return int(place.offset)


def _record(message: Message, ids: Mapping[str, str]) -> InputRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "a record that was read has a place"
    assert partition is not None, "a record that was read has a place"
    assert offset is not None, "a record that was read has a place"
    key: Any = message.key()
    return InputRecord(
        Source(topic, partition, offset, ids[topic]),
        message.timestamp()[1],
        key,
        message.value(),
        headers_of(message),
    )
