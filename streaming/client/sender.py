"""Writing to Kafka: one producer of a connection, and the thread that hears what became of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from streaming.client.errors import ClientError, KafkaUnreachableError

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.client.records import Record

logger = logging.getLogger("dlx.client")

Reported = Callable[[Any, "Message"], None]
"""Called with Kafka's error or None, and the record with its partition and offset."""

POLL_S = 0.1
SHORTEST_MS = 1000
BY_KEY = -1
"""The partition that librdkafka chooses."""


class Sender:
    """Hands records to Kafka in order.

    Args:
        properties: of librdkafka.
        timeout_s: how long a record may wait for Kafka before it is given up.
        on_error: called with librdkafka's complaints, in its words.
    """

    def __init__(
        self,
        properties: dict[str, str],
        timeout_s: float,
        on_error: Callable[[str], None],
        **more: Any,
    ) -> None:
        self._timeout_s = timeout_s
        self._bootstrap = properties["bootstrap.servers"]
        self._most_bytes = properties.get("message.max.bytes", "")
        settings: dict[str, Any] = {
            "linger.ms": 5,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 1000,
            "message.timeout.ms": max(int(timeout_s * 800), SHORTEST_MS),
            **properties,
            **more,
            "log_level": 0,
            "error_cb": lambda error: on_error(str(error.str())),
        }
        self.producer = Producer(settings)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="dlx-client-sender", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        record: Record,
        reported: Reported | None = None,
        *,
        partition: int = BY_KEY,
    ) -> None:
        """Hand a record over; waits while librdkafka's queue is full.

        Args:
            partition: by default that of the record's key.

        Raises:
            KafkaUnreachableError: the queue stayed full.
            ClientError: Kafka's limits forbid the record.
        """
        headers: Any = record.headers
        gives_up_s = time.monotonic() + self._timeout_s
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    headers=headers,
                    on_delivery=reported,
                )
            except BufferError as error:
                if time.monotonic() > gives_up_s:
                    raise KafkaUnreachableError(
                        f"Kafka at {self._bootstrap} has taken nothing for {self._timeout_s:g} s: "
                        "is it running?"
                    ) from error
                self.producer.poll(POLL_S)
            except KafkaException as error:
                raise ClientError(self._refused(record, error)) from error
            else:
                return

    def flush(self, timeout_s: float) -> int:
        """Wait until Kafka has everything; returns how many records it does not have."""
        return self.producer.flush(timeout_s)

    def close(self) -> None:
        """Give what is left to Kafka, as far as it takes it in time, and end."""
        left = self.producer.flush(self._timeout_s)
        if left:
            logger.warning("Kafka at %s has not taken the last %d records", self._bootstrap, left)
        self._closing.set()
        self._thread.join()

    def _refused(self, record: Record, error: KafkaException) -> str:
        words = f"Kafka does not take the record: {reason_of(error)}"
        if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
            return words
        most = self._most_bytes
        return f"{words} ({len(record.value)} bytes; kafka.max_message_bytes is {most})"

    def _poll(self) -> None:
        while not self._closing.is_set():
            self.producer.poll(POLL_S)


def reason_of(error: KafkaException) -> str:
    """What Kafka said."""
    return str(error.args[0].str())
