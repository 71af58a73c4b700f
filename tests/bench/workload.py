"""The workload of `dlx bench core`: orders that all die once.

    orders (topic) --> w0, w3, w6, w9   a consumer rejects them          a third each,
                       w1, w4, w7       they expire                      in steps of 36
                       w2, w5, w8       the queue exceeds its length
                            | dead letters
                       dlx (fanout) --> dlq --> read with automatic ack

A log has the records of one shard in order. Messages, publications and commands of a batch exist
before it is measured, as Kafka and the first stage would have created them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import Message, Publication
from streaming.broker.shard import Shard
from topology.declarations import Binding, Exchange, Queue
from topology.values import AmqpValue

START_MS: Final = 1_700_000_000_000
RECORDS_PER_MS: Final = 20
BODY_BYTES: Final = 200

REJECTED, EXPIRED, MAXLEN = range(3)
WORK_QUEUES: Final = tuple((f"w{number}", number % 3) for number in range(10))
REJECTED_QUEUES: Final = tuple(name for name, death in WORK_QUEUES if death == REJECTED)
DEAD_LETTER_QUEUE: Final = "dlq"

_SHARES: Final = {REJECTED: 3, EXPIRED: 4, MAXLEN: 4}
CYCLE: Final = sum(_SHARES[death] for _name, death in WORK_QUEUES)
"""Publishes that give each kind a third: 4 queues 3 times, 6 queues 4 times."""

ROUND: Final = 3 * CYCLE
"""Publishes between two rounds of the consumers."""

REGIONS: Final = ("eu", "us", "asia")

OPERATOR: Final = Actor(None, "admin")
PUBLISHER: Final = Actor(None, "publisher")
WORKER: Final = Actor(None, "worker")
READER: Final = Actor(None, "reader")

Record = tuple[int, Message | None, Publication | None, commands.Command | None]
"""An instant, and a publish or a command. The worker settles, the reader gets."""


@dataclass(frozen=True)
class Depths:
    """How long messages stay in the work queues.

    Attributes:
        ttl_ms: the TTL of the queues whose messages expire.
        max_length: the limit of the queues that exceed it.
        prefetch: the most unsettled deliveries of a consumer; 0 means no limit.
    """

    ttl_ms: int = 100
    max_length: int = 100
    prefetch: int = ROUND

    @classmethod
    def holding(cls, messages: int) -> Depths:
        """Return depths that hold this many messages, so that every further one displaces one."""
        return cls(ttl_ms=messages // RECORDS_PER_MS, max_length=messages * 4 // CYCLE)


def declarations(depths: Depths, other_queues: int = 0) -> list[commands.Command]:
    """Return the commands of the topology; other queues have no bindings."""
    found: list[commands.Command] = [
        commands.DeclareExchange(exchange=Exchange("orders", "topic")),
        commands.DeclareExchange(exchange=Exchange("dlx", "fanout")),
        commands.DeclareQueue(queue=Queue(DEAD_LETTER_QUEUE)),
        commands.Bind(binding=Binding("dlx", DEAD_LETTER_QUEUE)),
    ]
    for name, death in WORK_QUEUES:
        arguments: dict[str, AmqpValue] = {"x-dead-letter-exchange": "dlx"}
        if death == EXPIRED:
            arguments["x-message-ttl"] = depths.ttl_ms
        if death == MAXLEN:
            arguments["x-max-length"] = depths.max_length
        found.append(commands.DeclareQueue(queue=Queue(name, arguments=arguments)))
        found.append(
            commands.Bind(binding=Binding("orders", name, routing_key=f"order.*.{name}.#"))
        )
    found.extend(commands.DeclareQueue(queue=Queue(f"o{number}")) for number in range(other_queues))
    return found


def consumers(depths: Depths, actor: Actor = WORKER) -> list[commands.Command]:
    """Return one consumer per queue whose messages are rejected, labelled with its name."""
    return [
        commands.Consume(queue=name, label=name, prefetch=depths.prefetch, channel=actor.channel)
        for name in REJECTED_QUEUES
    ]


class Log:
    """Creates the records, batch by batch."""

    def __init__(self) -> None:
        self._published = 0
        self._at_ms = START_MS
        self._settled = dict.fromkeys(REJECTED_QUEUES, 0)
        self._cycles = [_cycle(region) for region in REGIONS]

    @property
    def now_ms(self) -> int:
        """The instant of the last record."""
        return self._at_ms

    def message(self) -> Message:
        """Return the next message."""
        offset = self._published
        self._published += 1
        self._at_ms = START_MS + offset // RECORDS_PER_MS
        return Message(1, 0, offset, 1, offset, BODY_BYTES)

    def publishes(self, count: int) -> Iterator[Record]:
        """Yield publishes to the work queues, a third for each kind of queue."""
        for number in range(count):
            message = self.message()
            cycle = self._cycles[number // CYCLE % len(REGIONS)]
            yield self._at_ms, message, cycle[number % CYCLE], None

    def publishes_to(self, exchange: str, routing_keys: list[str], count: int) -> Iterator[Record]:
        """Yield `count` publishes for each key, in turn."""
        publications = [Publication(exchange, key) for key in routing_keys]
        for _ in range(count):
            for publication in publications:
                message = self.message()
                yield self._at_ms, message, publication, None

    def batch(self, rounds: int) -> list[Record]:
        """Return rounds of publishes, each followed by rejects and a get."""
        records: list[Record] = []
        for _ in range(rounds):
            records.extend(self.publishes(ROUND))
            records.append((self._at_ms, None, None, self._rejections()))
            get = commands.Get(
                queue=DEAD_LETTER_QUEUE, count=2 * ROUND, auto_ack=True, channel=READER.channel
            )
            records.append((self._at_ms, None, None, get))
        return records

    def _rejections(self) -> commands.Command:
        """Reject each consumer's oldest deliveries, as many as a round published to its queue."""
        refs: list[str] = []
        for name in REJECTED_QUEUES:
            first = self._settled[name]
            after = self._settled[name] = first + ROUND // CYCLE * _SHARES[REJECTED]
            refs.extend(f"{name}/{number}" for number in range(first, after))
        return commands.Reject(refs=tuple(refs))


def _cycle(region: str) -> list[Publication]:
    """The publishes of a cycle, by turns of the queues."""
    publications = {
        name: Publication("orders", f"order.{region}.{name}.created", priority=1)
        for name, _death in WORK_QUEUES
    }
    return [
        publications[name]
        for turn in range(max(_SHARES.values()))
        for name, death in WORK_QUEUES
        if turn < _SHARES[death]
    ]


def feed(shard: Shard, records: list[Record]) -> None:
    """Fold records as the job does."""
    publish = shard.publish
    for at_ms, message, publication, command in records:
        if message is not None and publication is not None:
            publish(at_ms, message, publication, 0, PUBLISHER)
        elif command is not None:
            actor = READER if isinstance(command, commands.Get) else WORKER
            shard.command(at_ms, command, actor)
