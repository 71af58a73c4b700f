"""Measures messages from the publish to the settlement, through Kafka in both directions.

    publisher --> Kafka --> job --> outbound topic --> four consumers
                             ^------- settlements --------'

A process of its own publishes everything at once and settles deliveries as they come. The time ends
when the driver has committed the batch that settled the last message.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer

from streaming.protocol.record_headers import CHANNEL, EXCHANGE, KIND, LANE, OP, REF, ROUTING_KEY
from tests.bench.kafka_log import Headers, whole_topic
from tests.bench.pipeline.traffic import attribute_headers, bodies

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.bench.pipeline.environment import BenchEnvironment, CommittedBatch, RunningJob

CONSUMERS: Final = 4
TIMEOUT_S: Final = 300
_CONSUME_AT_ONCE: Final = 2_000


@dataclass(frozen=True)
class Consuming:
    """What is measured.

    Attributes:
        messages: how many, after a warm-up with as many: code is compiled only when it has run.
        prefetch: the limit of each consumer; 0 is none.
        single: each message has its own settlement; otherwise acks are `multiple`.
        reject_every: one of so many messages is rejected; 0 means none.
        lanes: of the vhost; publishes are spread over as many partitions.
    """

    queues: int = 1
    prefetch: int = 2_000
    messages: int = 200_000
    single: bool = False
    reject_every: int = 0
    lanes: int = 1


class Consumed(NamedTuple):
    """Messages per second, with the batches, progress and cores meanwhile."""

    rate: float
    batches: list[CommittedBatch]
    progress: list[Any]
    cores: dict[str, float]


def _topology(kind: Consuming) -> list[dict[str, Any]]:
    """Return the commands that declare the queues and start the consumers."""
    return [
        *(
            {"op": "declare_queue", "queue": {"name": f"q{number}"}}
            for number in range(kind.queues)
        ),
        *(
            {
                "op": "consume",
                "queue": f"q{number}",
                "as": f"c{number}",
                "prefetch": kind.prefetch,
                "channel": f"worker{worker}",
            }
            for worker in range(CONSUMERS)
            for number in range(kind.queues)
            if kind.queues == 1 or number % CONSUMERS == worker
        ),
    ]


def consume_rate(environment: BenchEnvironment, name: str, kind: Consuming) -> Consumed:
    """Publish, deliver and settle all messages."""
    environment.traffic.create_topic(name, kind.lanes)
    environment.declare(name, _topology(kind), kind.lanes)
    config = environment.config(name, name, lanes=kind.lanes)
    topics = (name, f"{name}.commands", config.outbound_topics()[("/", "guest")])
    context = multiprocessing.get_context("spawn")
    with environment.job(config) as job:
        job.wait_until(lambda: bool(job.batches))
        mine, theirs = context.Pipe()
        client = context.Process(
            target=run_client, args=(environment.servers, topics, kind, theirs), daemon=True
        )
        client.start()
        _run_once(job, mine, kind.messages, kind.messages)
        started_s = _run_once(job, mine, kind.messages, 2 * kind.messages)
        mine.send(None)
        client.join()
        ended_s = job.batches[-1].at_s
    batches = [each for each in job.batches if each.at_s > started_s]
    cores = job.cpu.cores(started_s, ended_s)
    return Consumed(kind.messages / (ended_s - started_s), batches, job.progress, cores)


def _run_once(job: RunningJob, client: Connection, count: int, published: int) -> float:
    """Let the client publish and settle `count` messages; return when it began.

    Args:
        published: how many messages the job will have read then.
    """
    client.send(count)
    job.wait_until(lambda: client.poll(0))
    started_s: float = client.recv()
    job.wait_until(lambda: job.published >= published and job.resident == 0)
    return started_s


def run_client(
    servers: str,
    topics: tuple[str, str, str],
    kind: Consuming,
    orders: Connection,
) -> None:
    """Publish as many messages as ordered, settle all of them, and answer when it began."""
    publishes, commands, outbound = topics
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    consumer = whole_topic(servers, outbound)
    body = bodies()
    number = 0
    while (count := orders.recv()) is not None:
        started_s = time.time()
        for _ in range(count):
            headers: Headers = [
                (EXCHANGE, b""),
                (ROUTING_KEY, b"q%d" % (number % kind.queues)),
                *attribute_headers("ids", number),
            ]
            partition = number % kind.lanes
            producer.produce(publishes, next(body), headers=headers, partition=partition)
            number += 1
        producer.flush(TIMEOUT_S)
        _settle(producer, consumer, commands, kind, count)
        orders.send(started_s)
    consumer.close()


def _settle(
    producer: Producer, consumer: Consumer, commands: str, kind: Consuming, count: int
) -> None:
    """Settle deliveries until there were `count`."""
    settled = 0
    deadline_s = time.monotonic() + TIMEOUT_S
    while settled < count and time.monotonic() < deadline_s:
        latest: dict[tuple[bytes, bytes], bytes] = {}
        for message in consumer.consume(_CONSUME_AT_ONCE, 0.01):
            received: dict[str, bytes] = dict(message.headers() or [])  # type: ignore[arg-type] # always a list
            if message.error() is not None or received.get(KIND) != b"delivery":
                continue
            settled += 1
            if not kind.single:
                latest[received[CHANNEL], received[LANE]] = received[REF]
                continue
            is_rejected = kind.reject_every and not settled % kind.reject_every
            _send(producer, commands, "reject" if is_rejected else "ack", received)
        for (channel, _lane), ref in latest.items():
            _send(producer, commands, "ack", {CHANNEL: channel, REF: ref}, multiple=True)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def _send(
    producer: Producer, topic: str, op: str, delivery: dict[str, bytes], **more: object
) -> None:
    channel = delivery[CHANNEL].decode()
    document = {"op": op, "refs": [delivery[REF].decode()], "channel": channel, **more}
    producer.produce(topic, json.dumps(document).encode(), headers=[(OP, op.encode())])
