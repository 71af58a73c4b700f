"""The log of `dlx bench chaos`: messages expire, overflow, are rejected, redriven and acked.

    topic `chaos`, partition 0              publishes and commands of vhost `/`
    topic `chaos`, partition 1              publishes and commands of vhost `partition-1`
    ...
    topic `chaos-publishes`, all partitions    publishes of vhost `merged`; its commands are first
                                               in partition 0 of `chaos`

A vhost that is fed by one partition has the same outcome wherever batches begin. How the records of
several partitions merge depends on it. So `merged` has queues in which each message ends alike in
every order, and one, `limited`, in which only the numbers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.protocol.record_headers import EXCHANGE, FLAGS, ROUTING_KEY, VHOST
from tests.bench.kafka_log import Headers, KafkaLog, whole_topic

LOG: Final = "chaos"
PUBLISHES: Final = f"{LOG}-publishes"
MERGED: Final = "merged"
COUNTED_QUEUES: Final = ("limited", "overflowed")
"""Queues of `merged` in which the order of merged records decides which messages stay."""

START_MS: Final = 1_700_000_000_000
MERGED_EVERY: Final = 5
WORK_QUEUES: Final = 4
GET_COUNT: Final = 20
REDRIVE_EVERY: Final = 400
REDRIVEN: Final = 600
"""Copies that a redrive names; those that are not in the graveyard are skipped."""

_ANSWER_S: Final = 30


class LogShape(NamedTuple):
    """How a log is spread, and what it leaves open.

    Attributes:
        partitions: of each of its two topics.
        lanes: of each vhost.
        holds: whether deliveries wait for their settlement, consumers stay, and redrives are open
            for a while: all end with a checkpoint that is lost.
    """

    partitions: int = 4
    lanes: int = 2
    holds: bool = True

    @property
    def has_consumers(self) -> bool:
        """Whether consumers settle on all lanes of a vhost."""
        return self.holds and self.lanes > 1

    @property
    def vhosts(self) -> tuple[str, ...]:
        """The vhosts that are fed by one partition each, in the order of partitions."""
        others = (f"partition-{number}" for number in range(1, self.partitions))
        return DEFAULT_VHOST, *others


class VhostLog:
    """Writes to the one partition that feeds a vhost."""

    def __init__(self, log: KafkaLog, vhost: str, partition: int) -> None:
        self._log = log
        self._vhost = vhost
        self._partition = partition
        self.at_ms = START_MS

    def command(self, **members: Any) -> None:
        """Queue a command."""
        vhost, partition = self._vhost, self._partition
        self._log.command(LOG, members, vhost=vhost, partition=partition, at_ms=self.at_ms)

    def publish(self, body: str, routing_key: str, *, confirm: bool) -> None:
        """Queue a publish to the exchange `orders`."""
        headers = _publish_headers(self._vhost, routing_key, confirm=confirm)
        self._log.send(LOG, body.encode(), headers, partition=self._partition, at_ms=self.at_ms)


def produce_log(servers: str, messages: int, shape: LogShape) -> int:
    """Write the log, and return the number of its records.

    Raises:
        RuntimeError: Kafka did not accept everything.
    """
    log = KafkaLog(servers)
    limits = {"message.timestamp.before.max.ms": str((1 << 63) - 1), "retention.ms": "-1"}
    for topic in (LOG, PUBLISHES):
        log.create(topic, shape.partitions, limits)
    _declare_merged(log, shape)
    vhosts = [VhostLog(log, vhost, number) for number, vhost in enumerate(shape.vhosts)]
    for vhost in vhosts:
        _declare(vhost)
        if shape.has_consumers:
            _declare_consumers(vhost)
    at_ms = START_MS
    count = 0
    for number in range(messages):
        at_ms += 1
        turn, place = divmod(number, MERGED_EVERY)
        if place == MERGED_EVERY - 1:
            headers = _publish_headers(MERGED, f"{number}", confirm=turn % 50 == 0)
            partition = turn % shape.partitions
            log.send(PUBLISHES, f"{number}".encode(), headers, partition=partition, at_ms=at_ms)
            continue
        in_vhost, partition = divmod(count, shape.partitions)
        count += 1
        vhosts[partition].at_ms = at_ms
        _traffic(vhosts[partition], in_vhost, shape)
    log.flush()
    return sum(ends(servers).values())


def ends(servers: str) -> dict[tuple[str, int], int]:
    """The end offset of each (topic, partition) of the log."""
    found = {}
    for topic in (LOG, PUBLISHES):
        consumer = whole_topic(servers, topic)
        for one in consumer.assignment():
            _low, high = consumer.get_watermark_offsets(one, timeout=_ANSWER_S)
            found[topic, one.partition] = high
        consumer.close()
    return found


def _publish_headers(vhost: str, routing_key: str, *, confirm: bool) -> Headers:
    headers: Headers = [
        (VHOST, vhost.encode()),
        (EXCHANGE, b"orders"),
        (ROUTING_KEY, routing_key.encode()),
    ]
    return [*headers, (FLAGS, b"confirm")] if confirm else headers


def _declare_merged(log: KafkaLog, shape: LogShape) -> None:
    """Declare queues in which merged records end alike, and one in which their order counts."""
    queues: dict[str, Mapping[str, Any]] = {
        "kept": {},
        "taken": {},
        "expired": {"x-message-ttl": 0, "x-dead-letter-routing-key": "expired-letters"},
        "expired-letters": {},
        "limited": {"x-max-length": 40, "x-dead-letter-routing-key": "overflowed"},
        "overflowed": {},
    }
    commands: list[dict[str, Any]] = [
        {"op": "declare_exchange", "exchange": {"name": "orders", "type": "fanout"}}
    ]
    for name, arguments in queues.items():
        dead = {"x-dead-letter-exchange": ""} if arguments else {}
        queue = {"name": name, "arguments": {**arguments, **dead}}
        commands.append({"op": "declare_queue", "queue": queue})
    if shape.holds:
        commands.append({"op": "consume", "queue": "taken", "as": "taker", "auto_ack": True})
    commands += [
        {"op": "bind", "binding": {"source": "orders", "destination": name}}
        for name in ("kept", "taken", "expired", "limited")
    ]
    for command in commands:
        log.command(LOG, command, vhost=MERGED, at_ms=START_MS)


def _traffic(vhost: VhostLog, number: int, shape: LogShape) -> None:
    """Write a message of a vhost, and the commands that follow it."""
    vhost.publish(f"body {number}", _key(number, shape.lanes), confirm=number % 50 == 0)
    if number % 100 == 99:
        (_settle if shape.holds else _consume)(vhost, number)
    if shape.has_consumers and number % 10 == 9:
        _settle_on_lanes(vhost, number, shape.lanes)
    if shape.holds and number % REDRIVE_EVERY == REDRIVE_EVERY - 1:
        _redrive(vhost, number)


def _key(number: int, lanes: int) -> str:
    """The routing key of a message: with several lanes, those of a queue are on all of them."""
    more = f".{number % 13}" if lanes > 1 else ""
    return f"order.{number % WORK_QUEUES}.created{more}"


def _declare_consumers(vhost: VhostLog) -> None:
    """Let a consumer have a queue on all lanes, and one have a queue on a single lane."""
    for name, single in (("shared", False), ("exact", True)):
        arguments = {"x-single-lane": single, "x-dead-letter-exchange": "dead"}
        vhost.command(op="declare_queue", queue={"name": name, "arguments": arguments})
        binding = {"source": "orders", "destination": name, "routing_key": "order.1.#"}
        vhost.command(op="bind", binding=binding)
        more = {"as": name, "prefetch": 16, "channel": "consumers"}
        vhost.command(op="consume", queue=name, **more)


def _settle_on_lanes(vhost: VhostLog, number: int, lanes: int) -> None:
    """Settle what the consumers have by now, on all lanes: ack most, reject or requeue some."""
    turn = number // 10
    op, more = (("ack", {}), ("ack", {}), ("nack", {"requeue": True}), ("reject", {}))[turn % 4]
    names = [f"shared/{turn}", *(f"shared/{turn}@{lane}" for lane in range(1, lanes))]
    refs = [*names, f"exact/{2 * turn}", f"exact/{2 * turn + 1}"]
    vhost.command(op=op, refs=refs, channel="consumers", **more)


def _declare(vhost: VhostLog) -> None:
    """Declare four kinds of work queues with one dead-letter queue."""
    for name, kind in (("orders", "topic"), ("dead", "fanout")):
        vhost.command(op="declare_exchange", exchange={"name": name, "type": kind})
    vhost.command(op="declare_queue", queue={"name": "graveyard"})
    vhost.command(op="bind", binding={"source": "dead", "destination": "graveyard"})
    variants: list[dict[str, Any]] = [
        {"x-message-ttl": 500},
        {"x-max-length": 50},
        {},
        {"x-queue-type": "quorum"},
    ]
    for number in range(WORK_QUEUES):
        arguments = {"x-dead-letter-exchange": "dead", **variants[number % len(variants)]}
        name = f"work{number}"
        vhost.command(op="declare_queue", queue={"name": name, "arguments": arguments})
        binding = {"source": "orders", "destination": name, "routing_key": f"order.{number}.#"}
        vhost.command(op="bind", binding=binding)


def _settle(vhost: VhostLog, number: int) -> None:
    """Get messages from a queue without TTL or limit: reject half, requeue two, ack the others."""
    label = f"g{number}"
    refs = [f"{label}/{place}" for place in range(GET_COUNT)]
    queue = f"work{2 + number // 100 % 2}"
    channel = {"channel": "worker"}
    vhost.command(op="get", queue=queue, count=GET_COUNT, **{"as": label}, **channel)
    vhost.command(op="reject", refs=refs[:10], **channel)
    vhost.command(op="nack", refs=refs[10:12], requeue=True, **channel)
    vhost.command(op="ack", refs=refs[12:], **channel)


def _consume(vhost: VhostLog, number: int) -> None:
    """Get messages from a queue without TTL or limit, with automatic ack."""
    queue = f"work{2 + number // 100 % 2}"
    more = {"count": GET_COUNT, "auto_ack": True, "as": f"g{number}", "channel": "worker"}
    vhost.command(op="get", queue=queue, **more)


def _redrive(vhost: VhostLog, number: int) -> None:
    """Send the letters among recent copies back, in two parts and at a rate."""
    target = ["work2", "orders", ["order.2.created"]]
    first = 2 * number
    letters = [[0, first + place, "graveyard", target] for place in range(REDRIVEN)]
    half = REDRIVEN // 2
    for start, part in ((0, letters[:half]), (half, letters[half:])):
        vhost.command(
            op="redrive",
            id=f"r{number}",
            seal="s",
            reason="chaos",
            total=REDRIVEN,
            first=start,
            letters=part,
            options={"rate": 300, "cap": 2},
        )
