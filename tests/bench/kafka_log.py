"""Writes the records of a benchmark to Kafka, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # not in its stubs

from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.protocol.record_headers import OP, VHOST

FLUSH_S: Final = 120

Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class KafkaLog:
    """The topics that a benchmark writes."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,  # a retry, such as to a new topic, keeps the order
                "log_level": 3,  # errors
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
        self._admin.create_topics([new])[topic].result()

    def send(
        self, topic: str, value: bytes, headers: Headers, *, partition: int = 0, at_ms: int = 0
    ) -> None:
        """Queue a record; waits while the queue is full. `at_ms` 0 is now."""
        while True:
            try:
                self._producer.produce(
                    topic, value, headers=headers, partition=partition, timestamp=at_ms
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def command(
        self,
        topic: str,
        document: Mapping[str, Any],
        *,
        vhost: str = DEFAULT_VHOST,
        partition: int = 0,
        at_ms: int = 0,
    ) -> None:
        """Queue a command."""
        headers: Headers = [(OP, document["op"].encode()), (VHOST, vhost.encode())]
        value = json.dumps(document).encode()
        self.send(topic, value, headers, partition=partition, at_ms=at_ms)

    def flush(self) -> None:
        """Wait until Kafka has everything.

        Raises:
            RuntimeError: Kafka did not accept everything in time.
        """
        left = self._producer.flush(FLUSH_S)
        if left:
            raise RuntimeError(f"Kafka did not accept {left} records within {FLUSH_S} s")


def whole_topic(servers: str, topic: str) -> Consumer:
    """Return a consumer of all records of a topic, without a group: nobody shares the work."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "log_level": 0, "group.id": "none", "fetch.wait.max.ms": 10}
    )
    partitions = consumer.list_topics(topic, timeout=FLUSH_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    return consumer
