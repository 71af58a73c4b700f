"""The log of `dlx bench chaos`: publishes that expire, overflow, are rejected, returned, acked."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # not in its stubs

LOG = "chaos"
EMPTY_LOG = f"{LOG}-empty"
START_MS = 1_700_000_000_000
WORK_QUEUES = 4
TAKEN = 20
"""Messages of one get."""

_FLUSH_S = 120
_ANSWER_S = 30


class _Log:
    """Writes the records, in order."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})

    def send(self, value: bytes, headers: list[tuple[str, str | bytes | None]], at_ms: int) -> None:
        while True:
            try:
                self._producer.produce(LOG, value, headers=headers, timestamp=at_ms, partition=0)
            except BufferError:
                self._producer.poll(0.5)
                continue
            return

    def command(self, at_ms: int, **members: Any) -> None:
        self.send(json.dumps(members).encode(), [("dlx-op", members["op"].encode())], at_ms)

    def end(self) -> None:
        left = self._producer.flush(_FLUSH_S)
        if left:
            raise RuntimeError(f"{left} records could not be produced")


def produce_log(servers: str, messages: int) -> int:
    """Write the log; returns where it ends.

    Raises:
        RuntimeError: Kafka did not take all of it.
    """
    _make_topics(servers)
    log = _Log(servers)
    _declare(log)
    at_ms = START_MS
    for number in range(messages):
        at_ms += 1
        _publish(log, at_ms, number)
        if number % 100 == 99:  # noqa: PLR2004 - every hundred
            _settle(log, at_ms, number)
    log.end()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "chaos-end"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(LOG, 0), timeout=_ANSWER_S)
    consumer.close()
    return int(high)


def _make_topics(servers: str) -> None:
    limits = {"message.timestamp.before.max.ms": str((1 << 63) - 1), "retention.ms": "-1"}
    topics = [
        NewTopic(name, num_partitions=1, replication_factor=1, config=limits)
        for name in (LOG, EMPTY_LOG)
    ]
    admin = AdminClient({"bootstrap.servers": servers})  # it must outlive the answers
    for made in admin.create_topics(topics).values():
        made.result()


def _declare(log: _Log) -> None:
    """Work queues of each kind, whose dead letters come together."""
    for name, kind in (("orders", "topic"), ("dead", "fanout")):
        log.command(START_MS, op="declare_exchange", exchange={"name": name, "type": kind})
    log.command(START_MS, op="declare_queue", queue={"name": "graveyard"})
    log.command(START_MS, op="bind", binding={"source": "dead", "destination": "graveyard"})
    variants: list[dict[str, Any]] = [
        {"x-message-ttl": 500},
        {"x-max-length": 50},
        {},
        {"x-queue-type": "quorum"},
    ]
    for number in range(WORK_QUEUES):
        arguments = {"x-dead-letter-exchange": "dead", **variants[number % len(variants)]}
        name = f"work{number}"
        log.command(START_MS, op="declare_queue", queue={"name": name, "arguments": arguments})
        binding = {"source": "orders", "destination": name, "routing_key": f"order.{number}.#"}
        log.command(START_MS, op="bind", binding=binding)


def _publish(log: _Log, at_ms: int, number: int) -> None:
    """One message; every fiftieth wants a confirm."""
    headers: list[tuple[str, str | bytes | None]] = [
        ("dlx-exchange", b"orders"),
        ("dlx-routing-key", f"order.{number % WORK_QUEUES}.created".encode()),
    ]
    if number % 50 == 0:
        headers.append(("dlx-flags", b"confirm"))
    log.send(f"body {number}".encode(), headers, at_ms)


def _settle(log: _Log, at_ms: int, number: int) -> None:
    """Take messages from a queue without TTL or limit; reject half, return two, ack the others."""
    label = f"g{number}"
    queue = f"work{2 + number // 100 % 2}"
    log.command(at_ms, op="get", queue=queue, count=TAKEN, channel="worker", **{"as": label})
    refs = [f"{label}/{place}" for place in range(TAKEN)]
    log.command(at_ms, op="reject", refs=refs[:10], channel="worker")
    log.command(at_ms, op="nack", refs=refs[10:12], requeue=True, channel="worker")
    log.command(at_ms, op="ack", refs=refs[12:], channel="worker")
