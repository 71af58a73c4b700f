"""Sending records to Kafka and waiting until it has them all: the one way to produce and flush."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException, Message, Producer

BATCH_TIMEOUT_S: Final = 120

_POLL_S = 0.1
_POLL_EVERY = 256
"""Records between two looks at what Kafka has accepted."""

DeliveryReport = Callable[[Any, Message], None]
"""Called with Kafka's error or None, and the record with its partition and offset."""


class SendError(Exception):
    """Kafka did not accept every record; its cause is what librdkafka raised, if it did."""


class RecordSender:
    """A Kafka producer that reports failures as one error per flush.

    Args:
        properties: librdkafka properties; may hold secrets.

    Attributes:
        producer: librdkafka's producer, for transactions and for a thread that polls it.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.producer = Producer({**properties, "log_level": 0})
        self._failures: list[str] = []
        self._unpolled = 0

    def send(
        self,
        topic: str,
        value: bytes,
        *,
        on_result: Callable[[str | None], None] | None = None,
        on_report: DeliveryReport | None = None,
        timeout_s: float = 120,
        **record: Any,
    ) -> None:
        """Queue a record; wait up to `timeout_s` while the producer's queue is full.

        Args:
            on_result: receives the reason of a failure, or None once Kafka has the record. By
                default `flush` raises the first failure.
            on_report: receives the record as well, on the thread that polls the producer.
            record: further arguments of `Producer.produce`, such as key, headers, partition.

        Raises:
            SendError: Kafka refused this record, or an earlier one without a report.
        """
        report = on_report or (self._delivered if on_result is None else _reporting(on_result))
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self.producer.produce(topic, value, on_delivery=report, **record)
            except BufferError as error:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise SendError(f"the producer's queue is full ({error})") from error
                self.producer.poll(min(_POLL_S, left_s))
                continue
            except KafkaException as error:
                raise SendError(error.args[0].str()) from error
            break
        if on_report is not None:
            return
        self._unpolled += 1
        if on_result is not None or self._unpolled >= _POLL_EVERY:
            self._unpolled = 0
            self.producer.poll(0)
            self._raise_failure()

    def send_all(self, records: Iterable[tuple[str, bytes, bytes, list[Any]]]) -> int:
        """Queue many records: topic, value, key and headers of each; return how many.

        Raises:
            SendError: as `send`.
        """
        produce, report, sent = self.producer.produce, self._delivered, 0
        for topic, value, key, headers in records:
            try:
                produce(topic, value, key, on_delivery=report, headers=headers)
            except (BufferError, KafkaException):  # wait, or say what is wrong
                self.send(topic, value, key=key, headers=headers)
            sent += 1
            if not sent % _POLL_EVERY:
                self.producer.poll(0)
                self._raise_failure()
        return sent

    def flush(self, timeout_s: float) -> None:
        """Wait until Kafka has every record that was sent.

        Raises:
            SendError: Kafka refused a record, or did not confirm all of them in time.
        """
        unsent = self.producer.flush(timeout_s)
        self._raise_failure()
        if unsent:
            raise SendError(f"{unsent} records were not confirmed within {timeout_s:g} s")

    def discard(self) -> None:
        """Drop every record that Kafka has not confirmed yet."""
        self.producer.purge()
        self._failures.clear()

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(str(error.str()))

    def _raise_failure(self) -> None:
        if self._failures:
            first = self._failures[0]
            self._failures.clear()
            raise SendError(first)


class BatchSender:
    """Sends records of batches that run again after a failure.

    No record of the failed attempt may follow those of the replay, so its producer is dropped.

    Args:
        properties: as of `RecordSender`.
        make: makes the producer, once there is something to send.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make: Callable[[Mapping[str, Any]], RecordSender] = RecordSender,
    ) -> None:
        self._properties = properties
        self._make = make
        self._sender: RecordSender | None = None

    @contextmanager
    def sending(self) -> Iterator[RecordSender]:
        """Yield the sender; wait at the end until Kafka has every record.

        Raises:
            SendError: Kafka did not accept them; the batch fails and runs again.
        """
        sender = self._sender or self._make(self._properties)
        self._sender = sender
        try:
            yield sender
            sender.flush(BATCH_TIMEOUT_S)
        except SendError:
            self._sender = None
            sender.discard()
            raise


def _reporting(on_result: Callable[[str | None], None]) -> DeliveryReport:
    def delivered(error: Any, _message: Message) -> None:
        on_result(None if error is None else str(error.str()))

    return delivered
