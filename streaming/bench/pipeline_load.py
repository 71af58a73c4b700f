"""The work that `dlx bench pipeline` measures: orders that all die once, in Kafka.

orders (topic) --> w0, w2, ...   they expire                        half each
                   w1, w3, ...   the queue is too long for them
                        | dead letters
                   dlx (fanout) --> dlq, where they stay
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # not in its stubs

from streaming.protocol.headers import EXCHANGE, OP, ROUTING_KEY

BODY_BYTES: Final = 200
DEAD_LETTER_QUEUE: Final = "dlq"
_BODIES: Final = 4_096
_FLUSH_S: Final = 120


@dataclass(frozen=True)
class Shape:
    """The work queues, and how long messages stay in them.

    Attributes:
        queues: even ones have the TTL, odd ones the length limit; with `only_length` all the limit.
        ttl_ms: of the queues whose messages expire.
        max_length: of the queues that get too long.
    """

    queues: int = 10
    ttl_ms: int = 1_000
    max_length: int = 1_000
    only_length: bool = False


def declarations(shape: Shape) -> list[dict[str, Any]]:
    """The topology as command documents: exchanges, queues, bindings."""
    found: list[dict[str, Any]] = [
        {"op": "declare_exchange", "exchange": {"name": "orders", "type": "direct"}},
        {"op": "declare_exchange", "exchange": {"name": "dlx", "type": "fanout"}},
        {"op": "declare_queue", "queue": {"name": DEAD_LETTER_QUEUE}},
        {"op": "bind", "binding": {"source": "dlx", "destination": DEAD_LETTER_QUEUE}},
    ]
    for number in range(shape.queues):
        arguments: dict[str, Any] = {"x-dead-letter-exchange": "dlx"}
        if shape.only_length or number % 2:
            arguments["x-max-length"] = shape.max_length
        else:
            arguments["x-message-ttl"] = shape.ttl_ms
        name = f"w{number}"
        found.append({"op": "declare_queue", "queue": {"name": name, "arguments": arguments}})
        binding = {"source": "orders", "destination": name, "routing_key": name}
        found.append({"op": "bind", "binding": binding})
    return found


def bodies() -> Iterator[bytes]:
    """Random bodies without end; some thousands, over and over."""
    chances = random.Random(1)  # noqa: S311 - not for secrets
    known = [chances.randbytes(BODY_BYTES) for _ in range(_BODIES)]
    while True:
        yield from known


class Log:
    """Writes to the topics of one broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._bodies = bodies()

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic as the job makes its own with `clock = wall`."""
        config = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
        made = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        self._admin.create_topics([made])[topic].result()

    def command(self, topic: str, documents: list[dict[str, Any]]) -> None:
        """Write commands, in order."""
        for document in documents:
            self._produce(topic, json.dumps(document).encode(), [(OP, document["op"].encode())], 0)
        self.flush()

    def publish(
        self, topic: str, shape: Shape, count: int, partitions: int, first: int = 0
    ) -> None:
        """Write publishes to the work queues in turn, to the partitions in turns of queues."""
        headers: list[list[tuple[str, str | bytes | None]]] = [
            [(EXCHANGE, b"orders"), (ROUTING_KEY, f"w{number}".encode())]
            for number in range(shape.queues)
        ]
        body = self._bodies
        queues = shape.queues
        for number in range(first, first + count):
            turn, queue = divmod(number, queues)
            self._produce(topic, next(body), headers[queue], turn % partitions)
        self.flush()

    def _produce(
        self,
        topic: str,
        value: bytes,
        headers: list[tuple[str, str | bytes | None]],
        partition: int,
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, headers=headers, partition=partition)
            except BufferError:
                self._producer.poll(0.1)
                continue
            return

    def flush(self) -> None:
        """Wait until Kafka has everything.

        Raises:
            RuntimeError: it did not take all of it.
        """
        left = self._producer.flush(_FLUSH_S)
        if left:
            raise RuntimeError(f"Kafka did not take {left} records within {_FLUSH_S} s")
