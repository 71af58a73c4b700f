"""Reads the log of a sequenced vhost from an offset on."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from streaming.kafka_headers import headers_of
from streaming.kafka_offsets import ELECTION_S, once_led, quiet_admin
from streaming.protocol.copied_records import COPIED
from streaming.protocol.log_records import CONTENT, LOG
from streaming.sequencer.snapshots import LogIdentity
from streaming.topic_ids import describe_topic
from topology.errors import DlxError

MAX_RECORDS: Final = 2_000
"""The most records of one read."""

_GROUP: Final = "dlx-sequencer"  # no offset is ever committed
_ANSWER_S: Final = 30.0
_READ_S: Final = 5.0


class LogUnreadableError(DlxError):
    """A log cannot be read from the place where its fold is."""

    help_code = "kafka-unreachable"


class RawRecord(NamedTuple):
    """A record of a log as Kafka has it.

    Attributes:
        header, content, copied: the headers `dlx-log`, `dlx-content` and `dlx-copied`; None if it
            has none.
    """

    offset: int
    at_ms: int
    header: bytes | None
    content: bytes | None
    value: bytes | None
    copied: bytes | None = None


class LogReader:
    """Reads one log. Use it on one thread at a time.

    It connects when it is used: each connected reader has threads of its own, and a process can
    have about a thousand.

    Args:
        properties: of librdkafka.
    """

    def __init__(self, properties: Mapping[str, Any], topic: str) -> None:
        self._settings: dict[str, Any] = {
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": 4_194_304,
            "queued.max.messages.kbytes": 32_768,
            **properties,
            "group.id": _GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "log_level": 0,
            "error_cb": lambda _error: None,
        }
        self.topic = topic
        self._properties = properties
        self._connected: Consumer | None = None

    @property
    def _consumer(self) -> Consumer:
        if self._connected is None:
            self._connected = Consumer(self._settings)
        return self._connected

    def identity(self, vhost: str) -> LogIdentity:
        """Which log it is, of the topics that have had its name.

        Raises:
            LogUnreadableError: Kafka does not answer.
        """
        admin = quiet_admin(self._properties)
        try:
            cluster = admin.list_topics(timeout=_ANSWER_S).cluster_id
            known = once_led(partial(describe_topic, admin, self.topic, _ANSWER_S), ELECTION_S)
        except KafkaException as error:
            raise self._unreadable(error.args[0]) from error
        return LogIdentity(vhost, self.topic, str(cluster), known.topic_id)

    def ends(self) -> tuple[int, int]:
        """The offset of the oldest record, and that of the next one.

        Raises:
            LogUnreadableError: Kafka does not answer.
        """
        try:
            first, end = once_led(
                partial(
                    self._consumer.get_watermark_offsets,
                    TopicPartition(self.topic, 0),
                    timeout=_ANSWER_S,
                ),
                ELECTION_S,
            )
        except KafkaException as error:
            raise self._unreadable(error.args[0]) from error
        return first, end

    def seek(self, offset: int) -> None:
        """Read from an offset on."""
        self._consumer.assign([TopicPartition(self.topic, 0, offset)])

    def read(self, timeout_s: float, most: int = MAX_RECORDS) -> list[RawRecord]:
        """The next records; none if none comes in time.

        Raises:
            LogUnreadableError: the records of this offset are gone, or the log is.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        found = []
        for message in (first, *self._consumer.consume(most - 1, 0)):
            error = message.error()
            if error is None:
                found.append(_raw(message))
            elif not error.retriable() and error.code() in _LASTING:
                raise self._unreadable(error)
        return found

    def close(self) -> None:
        """Disconnect, until it is used again."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _unreadable(self, error: KafkaError) -> LogUnreadableError:
        return LogUnreadableError(f"the log {self.topic} cannot be read: {error.str()}")


def records_between(reader: LogReader, first: int, end: int) -> Iterator[list[RawRecord]]:
    """The records from an offset on, and before another one, in portions.

    Raises:
        LogUnreadableError: the log cannot be read.
    """
    reader.seek(first)
    position = first
    while position < end:
        records = reader.read(_READ_S)
        if records:
            position = records[-1].offset + 1
            yield [record for record in records if record.offset < end]


_LASTING: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - how the library names librdkafka's codes
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


def _raw(message: Message) -> RawRecord:
    header: bytes | None = None
    content: bytes | None = None
    copied: bytes | None = None
    for name, value in headers_of(message):
        if name == LOG:
            header = value
        elif name == CONTENT:
            content = value
        elif name == COPIED:
            copied = value
    offset = message.offset()
    assert offset is not None, "a record that was read has an offset"
    return RawRecord(offset, message.timestamp()[1], header, content, message.value(), copied)
