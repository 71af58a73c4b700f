"""The shipping worker: a plain kafka-python client, to show that any Kafka client is a client."""

from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streaming.demo.addresses import Addresses, kafka_python_settings
from streaming.demo.story import SHIPPING, shipment
from streaming.demo.traffic_counters import Counts
from streaming.demo.wire_records import Repeats, command

CHANNEL: Final = "demo-shipping"
PREFETCH: Final = 100
POLL_MS: Final = 100


class Shipping:
    """One consumer of the queue `shipping`; used by one thread."""

    def __init__(self, addresses: Addresses, counts: Counts) -> None:
        self._addresses = addresses
        self._counts = counts
        settings = kafka_python_settings(addresses.kafka)
        self._producer = KafkaProducer(**settings, linger_ms=5)
        self._consumer = KafkaConsumer(**settings, enable_auto_commit=False)
        self._repeats = Repeats()

    def open(self) -> None:
        """Read the outbound topic from now on, and ask for deliveries."""
        partitions = self._consumer.partitions_for_topic(self._addresses.outbound) or {0}
        self._consumer.assign(
            [TopicPartition(self._addresses.outbound, each) for each in sorted(partitions)]
        )
        self._consumer.seek_to_end()
        for partition in self._consumer.assignment():
            self._consumer.position(partition)  # asks Kafka now, not at the first poll
        self._command(op="consume", queue=SHIPPING, channel=CHANNEL, prefetch=PREFETCH, label=True)

    def work(self) -> None:
        """A moment's work."""
        for records in self._consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                inbox = self._repeats.inbox(record.value, record.headers)
                if inbox is None or inbox.kind != "delivery" or inbox.channel != CHANNEL:
                    continue
                if shipment(inbox.value) == "ack":
                    self._command(op="ack", refs=[inbox.delivery_id], channel=CHANNEL)
                    self._counts.add("acked")
                else:
                    refs = [inbox.delivery_id]
                    self._command(op="nack", refs=refs, channel=CHANNEL, requeue=True)
                    self._counts.add("requeued")

    def close(self) -> None:
        """Stop consuming, and give the connections back."""
        self._command(op="close_channel", channel=CHANNEL)
        self._producer.flush(timeout=10)
        self._producer.close(timeout=10)
        self._consumer.close(autocommit=False)

    def _command(self, *, label: bool = False, **document: Any) -> None:
        if label:
            document["as"] = SHIPPING
        record = command(document, self._addresses.vhost)
        self._producer.send(self._addresses.commands, value=record.value, headers=record.headers)
