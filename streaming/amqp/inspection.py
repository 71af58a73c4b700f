"""What a vhost in memory holds and what died in it, as values for people and for tests."""

from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

from streaming.amqp.properties import read_properties, with_changes
from streaming.amqp.stored import Stored
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.dead_letters.x_death import delivered_headers
from streaming.broker.events import Events
from streaming.broker.message import Copy, Envelope

MAX_DEATHS: Final = 10_000
"""The deaths that are remembered: the newest."""

MAX_DEATH_BYTES: Final = 64 << 20
"""What their messages may take, about; fewer are remembered if they are larger."""

_DEATH_BYTES: Final = 1000
"""What a death takes besides its message."""


class HeldMessage(NamedTuple):
    """A message in a queue, as a consumer would get it.

    Attributes:
        properties: AMQP's basic properties that it has, without the headers.
        x_death: its deaths, the newest first, as RabbitMQ's header has them.
    """

    body: bytes
    exchange: str
    routing_key: str
    properties: dict[str, Any]
    headers: dict[str, Any]

    @property
    def x_death(self) -> list[dict[str, Any]]:
        """Its deaths, the newest first, as RabbitMQ's header has them."""
        deaths: list[dict[str, Any]] = self.headers.get("x-death", [])
        return deaths

    @property
    def message_id(self) -> str | None:
        """The property of that name."""
        found: str | None = self.properties.get("message_id")
        return found


class HeldQueue(NamedTuple):
    """A queue now."""

    name: str
    ready: int
    unacked: int
    consumers: int


class DeathRecord(NamedTuple):
    """One death of a message.

    Attributes:
        at_ms: when, epoch milliseconds.
        targets: the queues that got the dead letter.
        outcome: why no queue got it, or not every one; empty if nothing is missing.
    """

    at_ms: int
    queue: str
    reason: str
    body: bytes
    properties: dict[str, Any]
    targets: tuple[str, ...]
    outcome: str


class Deaths:
    """Remembers the deaths in a vhost, as a watcher of its events."""

    def __init__(self, vhost: OpenVhost) -> None:
        self._stored = vhost.stored
        self._deaths: deque[tuple[DeathRecord, int]] = deque()
        self._bytes = 0
        vhost.watchers.append(self._watch)

    def newest_last(self) -> list[DeathRecord]:
        """All that are remembered, in order."""
        return [death for death, _size in self._deaths]

    def _watch(self, events: Events) -> None:
        if not events.death_rows:
            return
        times = iter([*events.times, (len(events) + 1, 0)])
        at_ms, (next_row, next_ms) = 0, next(times)
        for row, copy, queue, outcome, text, targets in events.deaths():
            while next_row <= row:
                at_ms = next_ms
                next_row, next_ms = next(times)
            stored = self._stored.of(copy.message)
            properties = read_properties(stored.properties)
            body = stored.body
            death = DeathRecord(at_ms, queue, outcome.reason, body, properties, targets, text)
            size = len(body) + len(stored.properties) + _DEATH_BYTES
            self._deaths.append((death, size))
            self._bytes += size
            while len(self._deaths) > MAX_DEATHS or self._bytes > MAX_DEATH_BYTES:
                self._bytes -= self._deaths.popleft()[1]


def queues_of(vhost: OpenVhost) -> list[HeldQueue]:
    """The queues of a vhost now, by name."""
    shard = vhost.shard
    queues = [shard.state.queues.named(name) for name in sorted(shard.vhost.queues)]
    return [
        HeldQueue(queue.name, queue.ready, queue.unacked, len(queue.line.consumers))
        for queue in queues
    ]


def messages_in(vhost: OpenVhost, queue_name: str, limit: int | None = None) -> list[HeldMessage]:
    """The ready messages of a queue, in the order in which they would be delivered.

    Args:
        limit: return only the first ones.

    Raises:
        KeyError: there is no such queue.
    """
    if queue_name not in vhost.shard.vhost.queues:
        raise KeyError(queue_name)
    queue = vhost.shard.state.queues.named(queue_name)
    if not queue.ready:
        return []
    copies = islice(queue.order.matching(lambda _copy: True), limit)
    return [_held(vhost, copy) for copy in copies]


def _held(vhost: OpenVhost, copy: Copy) -> HeldMessage:
    stored, envelope = vhost.stored.of(copy.message), copy.envelope
    properties = read_properties(_now(stored, envelope))
    headers = properties.pop("headers", {})
    key = envelope.routing_keys[0]
    return HeldMessage(stored.body, envelope.exchange, key, properties, headers)


def _now(stored: Stored, envelope: Envelope) -> bytes:
    headers = delivered_headers(envelope, stored.headers)
    return with_changes(stored.properties, headers, stored.headers, envelope.expiration)
