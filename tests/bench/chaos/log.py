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


def produce_log(servers: str, messages: int, *, holds: bool = True, lanes: int = 1) -> int:
    """Write the log, and return its end offset.

    Args:
        holds: whether deliveries wait for their settlement, and redrives are open for a while: both
            end with a checkpoint that is lost.
        lanes: of the vhost; with several, consumers on all of them settle too.

    Raises:
        RuntimeError: Kafka did not accept everything.
    """
    log = KafkaLog(servers)
    limits = {"message.timestamp.before.max.ms": str((1 << 63) - 1), "retention.ms": "-1"}
    for topic in (LOG, EMPTY_LOG):
        log.create(topic, lanes, limits)
    _declare(log)
    if lanes > 1:
        _declare_consumers(log)
    at_ms = START_MS
    for number in range(messages):
        at_ms += 1
        headers: Headers = [
            (EXCHANGE, b"orders"),
            (ROUTING_KEY, _key(number, lanes)),
        ]
        if number % 50 == 0:
            headers.append((FLAGS, b"confirm"))
        log.send(LOG, f"body {number}".encode(), headers, at_ms=at_ms)
        if number % 100 == 99:
            (_settle if holds else _consume)(log, at_ms, number)
        if lanes > 1 and number % 10 == 9:
            _settle_on_lanes(log, at_ms, number, lanes)
        if holds and number % REDRIVE_EVERY == REDRIVE_EVERY - 1:
            _redrive(log, at_ms, number)
    log.flush()
    consumer = Consumer({"bootstrap.servers": servers, "log_level": 0, "group.id": "chaos-end"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(LOG, 0), timeout=_ANSWER_S)
    consumer.close()
    return int(high)


def _key(number: int, lanes: int) -> bytes:
    """The routing key of a message: with several lanes, those of a queue are on all of them."""
    more = f".{number % 13}" if lanes > 1 else ""
    return f"order.{number % WORK_QUEUES}.created{more}".encode()


def _declare_consumers(log: KafkaLog) -> None:
    """Let a consumer have a queue on all lanes, and one have a queue on a single lane."""
    for name, single in (("shared", False), ("exact", True)):
        arguments = {"x-single-lane": single, "x-dead-letter-exchange": "dead"}
        commands: list[dict[str, Any]] = [
            {"op": "declare_queue", "queue": {"name": name, "arguments": arguments}},
            {
                "op": "bind",
                "binding": {"source": "orders", "destination": name, "routing_key": "order.1.#"},
            },
            {"op": "consume", "queue": name, "as": name, "prefetch": 16, "channel": "consumers"},
        ]
        for command in commands:
            log.command(LOG, command, at_ms=START_MS)


def _settle_on_lanes(log: KafkaLog, at_ms: int, number: int, lanes: int) -> None:
    """Settle what the consumers have by now, on all lanes: ack most, reject or requeue some."""
    turn = number // 10
    op, more = (("ack", {}), ("ack", {}), ("nack", {"requeue": True}), ("reject", {}))[turn % 4]
    names = [f"shared/{turn}", *(f"shared/{turn}@{lane}" for lane in range(1, lanes))]
    refs = [*names, f"exact/{2 * turn}", f"exact/{2 * turn + 1}"]
    command = {"op": op, "refs": refs, "channel": "consumers", **more}
    log.command(LOG, command, at_ms=at_ms)


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


def _consume(log: KafkaLog, at_ms: int, number: int) -> None:
    """Get messages from a queue without TTL or limit, with automatic ack."""
    queue = f"work{2 + number // 100 % 2}"
    command = {
        "op": "get",
        "queue": queue,
        "count": GET_COUNT,
        "auto_ack": True,
        "as": f"g{number}",
    }
    log.command(LOG, {**command, "channel": "worker"}, at_ms=at_ms)


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
