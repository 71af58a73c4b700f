"""Writes records to Kafka: a producer, and the thread that receives its delivery reports."""

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streaming.client._wire import Record
from streaming.client.errors import ClientError, KafkaUnreachableError
from streaming.record_sender import DeliveryReport, RecordSender, SendError
from streaming.waiting import Flag, end

logger = logging.getLogger("dlx.client")

T = TypeVar("T")

POLL_S = 0.1
MIN_MESSAGE_TIMEOUT_MS = 1000
BY_KEY = -1
"""Let librdkafka choose the partition by the record's key."""


class Sender:
    """Writes records to Kafka in order.

    After a fatal error, such as a transaction that Kafka has given up, Kafka takes nothing more
    from it. confluent-kafka raises that error from whichever call serves its callbacks next.

    Args:
        properties: librdkafka's properties.
        timeout_s: how long to wait for room in librdkafka's queue, and for Kafka in `close`.
            A record that Kafka does not take within 80 % of it fails, unless `overrides` differ.
        on_error: called with librdkafka's error messages.
        overrides: properties that differ for this producer.
    """

    def __init__(
        self,
        properties: dict[str, str],
        timeout_s: float,
        on_error: Callable[[str], None],
        **overrides: Any,
    ) -> None:
        self._timeout_s = timeout_s
        self._on_error = on_error
        self._bootstrap = properties["bootstrap.servers"]
        self._max_bytes = properties.get("message.max.bytes", "")
        self._records = kafka_client(
            RecordSender,
            {
                "linger.ms": 5,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 1000,
                "message.timeout.ms": max(int(timeout_s * 800), MIN_MESSAGE_TIMEOUT_MS),
                **properties,
                **overrides,
                "error_cb": lambda error: on_error(str(error.str())),
            },
        )
        self.producer = self._records.producer
        self._closing = Flag()
        self._thread = threading.Thread(target=self._poll, name="dlx-client-sender", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        record: Record,
        on_report: DeliveryReport | None = None,
        *,
        partition: int = BY_KEY,
    ) -> None:
        """Queue a record; waits while librdkafka's queue is full.

        Raises:
            KafkaUnreachableError: the queue stayed full for `timeout_s`.
            ClientError: Kafka's limits forbid the record.
        """
        try:
            self._records.send(
                topic,
                record.value,
                on_report=on_report or _ignore,
                timeout_s=self._timeout_s,
                key=record.key,
                partition=partition,
                headers=record.headers,
            )
        except SendError as error:
            if isinstance(error.__cause__, BufferError):
                raise KafkaUnreachableError(
                    f"Kafka at {self._bootstrap} has accepted nothing for "
                    f"{self._timeout_s:g} s: is it running?"
                ) from error
            raise ClientError(self._refusal(record, error)) from error
        except (TypeError, ValueError) as error:
            raise ClientError(f"kafka_headers or record_key: {error}") from error

    def close(self) -> None:
        """Give Kafka `timeout_s` to accept the queued records, then stop."""
        try:
            left = self.producer.flush(self._timeout_s)
        except KafkaException as error:
            self._on_error(reason_of(error))
            left = len(self.producer)
        if left:
            logger.warning("Kafka at %s did not accept the last %d records", self._bootstrap, left)
        self._closing.set()
        end(self._thread, self._timeout_s)

    def _refusal(self, record: Record, error: SendError) -> str:
        text = f"Kafka refuses the record: {error}"
        cause = error.__cause__
        is_too_large = (
            isinstance(cause, KafkaException)
            and cause.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
        )
        if not is_too_large:
            return text
        limit = self._max_bytes
        return f"{text} ({len(record.value)} bytes; kafka.max_message_bytes is {limit})"

    def _poll(self) -> None:
        while not self._closing.is_set():
            try:
                self.producer.poll(POLL_S)
            except KafkaException as error:  # a fatal one; the reports of queued records follow
                self._on_error(reason_of(error))


def kafka_client(kind: Callable[[dict[str, Any]], T], properties: dict[str, Any]) -> T:
    """Create a client of librdkafka.

    Raises:
        ClientError: librdkafka does not know a property, or not its value.
    """
    try:
        return kind(properties)
    except KafkaException as error:
        raise ClientError(f"kafka: librdkafka refuses a property: {reason_of(error)}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ClientError(f"kafka: a property is not valid: {error}") from error


def _ignore(_error: object, _record: object) -> None:
    pass


def reason_of(error: KafkaException) -> str:
    """Return Kafka's error message."""
    return str(error.args[0].str())
