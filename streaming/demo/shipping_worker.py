"""The shipping worker: a plain kafka-python client, to show that any Kafka client will do."""

from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streaming.demo.client_setup import Addresses, TrafficCounters, kafka_python_settings
from streaming.demo.kafka_records import Deduplicator, command
from streaming.demo.order_process import SHIPPING, shipment

CHANNEL: Final = "demo-shipping"
PREFETCH: Final = 100
POLL_MS: Final = 100


class ShippingWorker:
    """One consumer of the queue `shipping`; used by one thread."""

    def __init__(self, addresses: Addresses, counters: TrafficCounters) -> None:
        self._addresses = addresses
        self._counters = counters
        settings = kafka_python_settings(addresses.kafka)
        self._producer = KafkaProducer(**settings, linger_ms=5)
        self._consumer = KafkaConsumer(**settings, enable_auto_commit=False)
        self._deduplicator = Deduplicator()

    def open(self) -> None:
        """Read the outbound topic from its end, and consume the queue."""
        partitions = self._consumer.partitions_for_topic(self._addresses.outbound) or {0}
        self._consumer.assign(
            [TopicPartition(self._addresses.outbound, each) for each in sorted(partitions)]
        )
        self._consumer.seek_to_end()
        for partition in self._consumer.assignment():
            self._consumer.position(partition)  # asks Kafka now, not at the first poll
        self._command({"op": "consume", "queue": SHIPPING, "as": SHIPPING, "prefetch": PREFETCH})

    def work(self) -> None:
        """Settle the deliveries that have arrived."""
        for records in self._consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                read = self._deduplicator.read(record.value, record.headers)
                if read is None or read.kind != "delivery" or read.channel != CHANNEL:
                    continue
                refs = [read.delivery_id]
                if shipment(read.value) == "ack":
                    self._command({"op": "ack", "refs": refs})
                    self._counters.add("acked")
                else:
                    self._command({"op": "nack", "refs": refs, "requeue": True})
                    self._counters.add("requeued")

    def close(self) -> None:
        """Stop consuming and close the connections."""
        self._command({"op": "close_channel"})
        self._producer.flush(timeout=10)
        self._producer.close(timeout=10)
        self._consumer.close(autocommit=False)

    def _command(self, document: dict[str, Any]) -> None:
        record = command({**document, "channel": CHANNEL}, self._addresses.vhost)
        self._producer.send(self._addresses.commands, value=record.value, headers=record.headers)
