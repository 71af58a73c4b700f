"""The log of `dlx bench chaos`: messages expire, overflow, are rejected, redriven and acked."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from streaming.protocol.record_headers import EXCHANGE, FLAGS, ROUTING_KEY
from tests.bench.kafka_log import Headers, KafkaLog

LOG: Final = "chaos"
EMPTY_LOG: Final = f"{LOG}-empty"
START_MS: Final = 1_700_000_000_000
WORK_QUEUES: Final = 4
GET_COUNT: Final = 20
REDRIVE_EVERY: Final = 1_500
REDRIVEN: Final = 1_000
"""Copies that a redrive names; those that are not in the graveyard are skipped."""

_ANSWER_S: Final = 30


def produce_log(servers: str, messages: int) -> int:
    """Write the log, and return its end offset.

    Raises:
        RuntimeError: Kafka did not accept everything.
    """
    log = KafkaLog(servers)
    limits = {"message.timestamp.before.max.ms": str((1 << 63) - 1), "retention.ms": "-1"}
    for topic in (LOG, EMPTY_LOG):
        log.create(topic, 1, limits)
    _declare(log)
    at_ms = START_MS
    for number in range(messages):
        at_ms += 1
        headers: Headers = [
            (EXCHANGE, b"orders"),
            (ROUTING_KEY, f"order.{number % WORK_QUEUES}.created".encode()),
        ]
        if number % 50 == 0:
            headers.append((FLAGS, b"confirm"))
        log.send(LOG, f"body {number}".encode(), headers, at_ms=at_ms)
        if number % 100 == 99:
            _settle(log, at_ms, number)
        if number % REDRIVE_EVERY == REDRIVE_EVERY - 1:
            _redrive(log, at_ms, number)
    log.flush()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "chaos-end"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(LOG, 0), timeout=_ANSWER_S)
    consumer.close()
    return int(high)


def _declare(log: KafkaLog) -> None:
    """Declare four kinds of work queues with one dead-letter queue."""

    def command(**members: Any) -> None:
        log.command(LOG, members, at_ms=START_MS)

    for name, kind in (("orders", "topic"), ("dead", "fanout")):
        command(op="declare_exchange", exchange={"name": name, "type": kind})
    command(op="declare_queue", queue={"name": "graveyard"})
    command(op="bind", binding={"source": "dead", "destination": "graveyard"})
    variants: list[dict[str, Any]] = [
        {"x-message-ttl": 500},
        {"x-max-length": 50},
        {},
        {"x-queue-type": "quorum"},
    ]
    for number in range(WORK_QUEUES):
        arguments = {"x-dead-letter-exchange": "dead", **variants[number % len(variants)]}
        name = f"work{number}"
        command(op="declare_queue", queue={"name": name, "arguments": arguments})
        binding = {"source": "orders", "destination": name, "routing_key": f"order.{number}.#"}
        command(op="bind", binding=binding)


def _settle(log: KafkaLog, at_ms: int, number: int) -> None:
    """Get messages from a queue without TTL or limit: reject half, requeue two, ack the others."""

    def command(**members: Any) -> None:
        log.command(LOG, {**members, "channel": "worker"}, at_ms=at_ms)

    label = f"g{number}"
    refs = [f"{label}/{place}" for place in range(GET_COUNT)]
    queue = f"work{2 + number // 100 % 2}"
    command(op="get", queue=queue, count=GET_COUNT, **{"as": label})
    command(op="reject", refs=refs[:10])
    command(op="nack", refs=refs[10:12], requeue=True)
    command(op="ack", refs=refs[12:])


def _redrive(log: KafkaLog, at_ms: int, number: int) -> None:
    """Send the letters among recent copies back, in two parts and at a rate."""
    target = ["work2", "orders", ["order.2.created"]]
    first = 2 * number
    letters = [[0, first + place, "graveyard", target] for place in range(REDRIVEN)]
    half = REDRIVEN // 2
    for start, part in ((0, letters[:half]), (half, letters[half:])):
        command: dict[str, Any] = {
            "op": "redrive",
            "id": f"r{number}",
            "seal": "s",
            "reason": "chaos",
        }
        command |= {"total": REDRIVEN, "first": start, "letters": part}
        log.command(LOG, {**command, "options": {"rate": 300, "cap": 2}}, at_ms=at_ms)
