"""Tries mappings on the last records of their topics: needs no job and writes nothing."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streaming.config import InputSettings, InvalidConfigError, JobConfig
from streaming.config.types import join_index
from streaming.kafka_errors import KafkaErrors
from streaming.kafka_headers import headers_of
from streaming.protocol.record_headers import MalformedRecordError
from streaming.topic_mapping import (
    MappedPublish,
    MappedRecord,
    TopicMapper,
    body_document,
)
from topology.errors import DlxError, Problem

READ_TIMEOUT_S: Final = 10.0
"""How long to read one topic; what was read until then is tried."""

_POLL_S: Final = 0.2


class TrialError(DlxError):
    """Kafka does not answer, or a topic cannot be read."""


class Trial(NamedTuple):
    """What a record would become: a publish, or a row of the table quarantine."""

    topic: str
    partition: int
    offset: int
    outcome: MappedPublish | MalformedRecordError


class MappingTrials:
    """Tries the mapped inputs of a configuration on what Kafka has.

    Args:
        properties: of librdkafka, as `librdkafka_properties` returns them.

    Raises:
        InvalidConfigError: a mapped topic does not exist.
        TrialError: Kafka does not answer.
    """

    def __init__(self, config: JobConfig, properties: Mapping[str, str]) -> None:
        self._config = config
        self._timeout_s = config.kafka.connect_timeout_ms / 1000
        self._errors = KafkaErrors()
        settings: dict[str, Any] = {**properties, "log_level": 0, "error_cb": self._errors.note}
        del settings["message.max.bytes"]  # known to producers only
        self._consumer = Consumer(
            {
                **settings,
                "group.id": "dlx-config-check",  # required, but never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        self._partitions = self._known_partitions()

    def inputs(self) -> list[InputSettings]:
        """The mapped inputs, in order."""
        return [each for each in self._config.inputs if each.mapping is not None]

    def missing(self) -> list[str]:
        """The topics that do not exist and that the job will create."""
        return [each.topic for each in self._config.inputs if each.topic not in self._partitions]

    def run(self, each: InputSettings, count: int) -> list[Trial]:
        """Try the mapping of an input on the last records of its topic, oldest first.

        Raises:
            TrialError: the topic cannot be read.
        """
        assert each.mapping is not None
        limits = self._config.flow
        mapper = TopicMapper(each.topic, each.mapping, self._config.vhosts, limits.max_header_bytes)
        return [
            Trial(
                each.topic,
                record.partition() or 0,
                record.offset() or 0,
                _outcome(record, mapper, limits.max_body_bytes, limits.max_header_bytes),
            )
            for record in self._last_records(each.topic, count)
        ]

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _known_partitions(self) -> dict[str, list[int]]:
        try:
            topics = self._consumer.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise self._no_answer(error) from error
        problems = [
            Problem(
                f"{join_index('inputs', position)}.topic",
                f"Kafka has no topic {each.topic!r}, and the job does not create mapped topics",
            )
            for position, each in enumerate(self._config.inputs)
            if each.mapping is not None and each.topic not in topics
        ]
        if problems:
            raise InvalidConfigError(tuple(problems))
        return {name: sorted(topic.partitions) for name, topic in topics.items()}

    def _last_records(self, topic: str, count: int) -> Sequence[Message]:
        starts = []
        try:
            for number in self._partitions[topic]:
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=self._timeout_s
                )
                if high > low:
                    starts.append(TopicPartition(topic, number, max(low, high - count)))
            self._consumer.assign(starts)
            found = list(self._read(len(starts)))
            self._consumer.unassign()
        except KafkaException as error:
            raise TrialError(
                f"the topic {topic!r} cannot be read: {error.args[0].str()}"
            ) from error
        found.sort(key=lambda one: (one.timestamp()[1], one.partition(), one.offset()))
        return found[-count:]

    def _read(self, unfinished: int) -> Iterator[Message]:
        """Yield the records of all assigned partitions up to their ends."""
        deadline_s = time.monotonic() + max(READ_TIMEOUT_S, self._timeout_s)
        while unfinished and time.monotonic() < deadline_s:
            message = self._consumer.poll(_POLL_S)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (how the library names it)
                unfinished -= 1
            elif error is not None:
                raise KafkaException(error)
            elif message is not None:
                yield message

    def _no_answer(self, error: KafkaException) -> TrialError:
        self._consumer.poll(0)  # delivers the errors
        servers = ",".join(self._config.kafka.bootstrap_servers)
        why = self._errors.explain(error.args[0].str())
        return TrialError(
            f"kafka.bootstrap_servers: no answer from {servers} within {self._timeout_s:g} s {why}"
        )


def _outcome(
    record: Message, mapper: TopicMapper, max_body_bytes: int, max_header_bytes: int
) -> MappedPublish | MalformedRecordError:
    """What the intake would make of a record."""
    headers = tuple((name, _bytes(value)) for name, value in headers_of(record))
    size = sum(len(name.encode()) + len(value or b"") for name, value in headers)
    value = _bytes(record.value())
    if size > max_header_bytes:
        return MalformedRecordError(
            "headers_too_large", f"the headers have {size} bytes, more than {max_header_bytes}"
        )
    if value is None:
        return MalformedRecordError("null_body", "a publish needs a value that is not null")
    try:
        mapped = mapper.publish(
            MappedRecord(
                _bytes(record.key()),
                headers,
                body_document(value) if mapper.needs_body else None,
                record.partition() or 0,
                record.offset() or 0,
                record.timestamp()[1],
            ),
            size,
        )
    except MalformedRecordError as fault:
        return fault
    if len(value) > max_body_bytes:
        return MalformedRecordError(
            "body_too_large", f"the body has {len(value)} bytes, more than {max_body_bytes}"
        )
    return mapped


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
