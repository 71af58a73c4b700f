"""Writes records to Kafka: a producer, and the thread that receives its delivery reports."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streaming.client._wire import Record
from streaming.client.errors import ClientError, KafkaUnreachableError

logger = logging.getLogger("dlx.client")

T = TypeVar("T")

DeliveryReport = Callable[[Any, Message], None]
"""Called with Kafka's error or None, and the record with its partition and offset."""

POLL_S = 0.1
MIN_MESSAGE_TIMEOUT_MS = 1000
BY_KEY = -1
"""Let librdkafka choose the partition by the record's key."""


class Sender:
    """Writes records to Kafka in order.

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
        self._bootstrap = properties["bootstrap.servers"]
        self._max_bytes = properties.get("message.max.bytes", "")
        self.producer = kafka_client(
            Producer,
            {
                "linger.ms": 5,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 1000,
                "message.timeout.ms": max(int(timeout_s * 800), MIN_MESSAGE_TIMEOUT_MS),
                **properties,
                **overrides,
                "log_level": 0,
                "error_cb": lambda error: on_error(str(error.str())),
            },
        )
        self._closing = threading.Event()
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
        headers: Any = record.headers
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    headers=headers,
                    on_delivery=on_report,
                )
            except BufferError as error:
                if time.monotonic() > deadline_s:
                    raise KafkaUnreachableError(
                        f"Kafka at {self._bootstrap} has accepted nothing for "
                        f"{self._timeout_s:g} s: is it running?"
                    ) from error
                self.producer.poll(POLL_S)
            except KafkaException as error:
                raise ClientError(self._refusal(record, error)) from error
            except (TypeError, ValueError) as error:
                raise ClientError(f"kafka_headers or record_key: {error}") from error
            else:
                return

    def close(self) -> None:
        """Give Kafka `timeout_s` to accept the queued records, then stop."""
        left = self.producer.flush(self._timeout_s)
        if left:
            logger.warning("Kafka at %s did not accept the last %d records", self._bootstrap, left)
        self._closing.set()
        self._thread.join()

    def _refusal(self, record: Record, error: KafkaException) -> str:
        text = f"Kafka refuses the record: {reason_of(error)}"
        if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
            return text
        limit = self._max_bytes
        return f"{text} ({len(record.value)} bytes; kafka.max_message_bytes is {limit})"

    def _poll(self) -> None:
        while not self._closing.is_set():
            self.producer.poll(POLL_S)


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


def reason_of(error: KafkaException) -> str:
    """Return Kafka's error message."""
    return str(error.args[0].str())
