"""The traffic of `dlx bench pipeline`: orders that all die once, in Kafka.

orders (topic) --> w0, w2, ...   they expire                  half each
                   w1, w3, ...   the queue exceeds its length
                        | dead letters
                   dlx (fanout) --> dlq, where they stay
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from streaming.protocol.record_headers import EXCHANGE, HEADERS, PROPERTIES, ROUTING_KEY
from tests.bench.kafka_log import Headers, KafkaLog

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BODY_BYTES: Final = 200
DEAD_LETTER_QUEUE: Final = "dlq"
_BODIES: Final = 4_096

Attributes = Literal["plain", "ids", "headers", "trace"]
"""What publishes carry besides a body: nothing; unique ids and a timestamp; three AMQP headers, one
of them unique; or the headers of a trace and of CloudEvents, unique too."""

Death = Literal["both", "ttl", "length"]
"""Why messages die."""

ATTRIBUTES: Final[tuple[Attributes, ...]] = get_args(Attributes)


@dataclass(frozen=True)
class Shape:
    """The work queues.

    Attributes:
        queues: how many. By default even ones have the TTL, odd ones the length limit.
        ttl_ms: the TTL.
        max_length: the length limit.
        death: what all queues have; by default half of them have a TTL, half a length limit.
        attributes: what each publish carries besides its body.
    """

    queues: int = 10
    ttl_ms: int = 1_000
    max_length: int = 1_000
    death: Death = "both"
    attributes: Attributes = "plain"

    def is_limited(self, number: int) -> bool:
        """Whether the queue of that number has the length limit."""
        return self.death == "length" or (self.death == "both" and number % 2 == 1)

    @property
    def kept(self) -> int:
        """How many messages the length limits let stay in full queues."""
        return self.max_length * sum(map(self.is_limited, range(self.queues)))


def declarations(shape: Shape) -> list[dict[str, Any]]:
    """Return the commands that declare exchanges, queues and bindings."""
    found: list[dict[str, Any]] = [
        {"op": "declare_exchange", "exchange": {"name": "orders", "type": "direct"}},
        {"op": "declare_exchange", "exchange": {"name": "dlx", "type": "fanout"}},
        {"op": "declare_queue", "queue": {"name": DEAD_LETTER_QUEUE}},
        {"op": "bind", "binding": {"source": "dlx", "destination": DEAD_LETTER_QUEUE}},
    ]
    for number in range(shape.queues):
        arguments: dict[str, Any] = {"x-dead-letter-exchange": "dlx"}
        if shape.is_limited(number):
            arguments["x-max-length"] = shape.max_length
        else:
            arguments["x-message-ttl"] = shape.ttl_ms
        name = f"w{number}"
        found.append({"op": "declare_queue", "queue": {"name": name, "arguments": arguments}})
        binding = {"source": "orders", "destination": name, "routing_key": name}
        found.append({"op": "bind", "binding": binding})
    return found


def bodies() -> Iterator[bytes]:
    """Yield random bodies without end; they repeat after 4,096."""
    chances = random.Random(1)
    known = [chances.randbytes(BODY_BYTES) for _ in range(_BODIES)]
    while True:
        yield from known


def attribute_headers(attributes: Attributes, number: int) -> Headers:
    """Return the headers that the attributes of a publish need."""
    match attributes:
        case "plain":
            return []
        case "ids":
            properties = {
                "message_id": f"5f0c3a52-8d1b-4c6e-9b1f-{number:012x}",
                "correlation_id": f"order-{number}",
                "timestamp": 1_700_000_000 + number // 1_000,
                "content_type": "application/json",
            }
            return [(PROPERTIES, json.dumps(properties).encode())]
        case "headers":
            table = {"tenant": f"tenant-{number % 20}", "attempt": 1, "order": f"order-{number}"}
            return [(HEADERS, json.dumps(table).encode())]
        case "trace":
            return [
                ("traceparent", b"00-%032x-%016x-01" % (number * 7_919 + 1, number + 1)),
                ("ce_id", b"5f0c3a52-8d1b-4c6e-9b1f-%012x" % number),
                ("ce_source", b"/orders"),
                ("ce_type", b"order.created"),
                ("ce_time", b"2026-01-01T00:00:00.%06dZ" % (number % 1_000_000)),
            ]


class TrafficWriter:
    """Writes topologies and publishes to the topics of one Kafka."""

    def __init__(self, servers: str) -> None:
        self._log = KafkaLog(servers)
        self._bodies = bodies()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic as the job does with `clock = wall`."""
        config = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
        self._log.create(topic, partitions, config)

    def declare(self, topic: str, commands: list[dict[str, Any]], partitions: int) -> None:
        """Create a topic of commands and write commands to it."""
        self.create_topic(topic, partitions)
        for command in commands:
            self._log.command(topic, command)
        self._log.flush()

    def publish(
        self, topic: str, shape: Shape, count: int, partitions: int, first: int = 0
    ) -> None:
        """Write publishes to the work queues in turn; each round of queues is in one partition."""
        headers: list[Headers] = [
            [(EXCHANGE, b"orders"), (ROUTING_KEY, f"w{number}".encode())]
            for number in range(shape.queues)
        ]
        for number in range(first, first + count):
            turn, queue = divmod(number, shape.queues)
            body = next(self._bodies)
            more = attribute_headers(shape.attributes, number)
            self._log.send(topic, body, [*headers[queue], *more], partition=turn % partitions)
        self._log.flush()


def run_publisher(
    servers: str, topic: str, shape: Shape, numbers: tuple[int, int, int], orders: Connection
) -> None:
    """Publish once when told to, in a process of its own; answer when it began.

    Args:
        numbers: how many publishes, how many partitions, and the number of the first publish.
    """
    count, partitions, first = numbers
    traffic = TrafficWriter(servers)
    orders.send(None)
    orders.recv()
    orders.send(time.time())
    traffic.publish(topic, shape, count, partitions, first)
