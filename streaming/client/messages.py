"""What goes out and comes in, as values: messages, deliveries, deaths, returns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from topology.values import Timestamp

if TYPE_CHECKING:
    from streaming.client.channel import Channel

Body = bytes | bytearray | memoryview | str
"""What can be published; text is sent as UTF-8."""

KafkaHeaders = tuple[tuple[str, bytes | None], ...]


class Death(msgspec.Struct, frozen=True):
    """One entry of `x-death`, the latest first (R-DEATH-1).

    Attributes:
        time: of the first such death, UTC, in whole seconds; later ones only count.
        original_expiration: the `expiration` that the message had, if it died of it.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    time: datetime | None
    original_expiration: str | None = None


class _Message(msgspec.Struct, kw_only=True):
    """What every message that comes in has.

    Attributes:
        headers: the AMQP headers table; values as `topology.values` says.
        kafka_headers: the publisher's own Kafka headers, as bytes.
        truncated: of a message too large for its Kafka topic, what is missing here and how much of
        it: entries of `x-death`, bytes of the `body`, and so on; empty if it is whole.
        origin: topic number, partition and offset, by which the tables have the message whole
        (`dlx dead-letters show 1/0/42`); known where something was left out, and of returns.
    """

    body: bytes
    exchange: str
    routing_key: str
    properties: dict[str, Any]
    headers: dict[str, Any]
    kafka_headers: KafkaHeaders = ()
    truncated: dict[str, int] = {}
    origin: tuple[int, int, int] | None = None


class Returned(_Message, kw_only=True):
    """A message that came back: 312 NO_ROUTE or 313 NO_CONSUMERS (R-ROUTE-9)."""

    reply_code: int
    reply_text: str


class Delivery(_Message, kw_only=True):
    """A message that was handed to us.

    Attributes:
        queue: it came out of.
        consumer_tag: of the consumer; empty for a get.
        redelivered: whether it was handed out before.
        delivery_count: how often it was returned before.
        delivery_id: what settles it, also from another process; empty with automatic ack.
    """

    queue: str
    consumer_tag: str
    redelivered: bool
    delivery_count: int
    delivery_id: str
    channel: Channel | None = None

    @property
    def x_death(self) -> list[Death]:
        """Its deaths, the latest first; empty for a message that never died."""
        entries = self.headers.get("x-death")
        return [_death(entry) for entry in entries] if isinstance(entries, list) else []

    def ack(self, *, multiple: bool = False) -> None:
        """As `Channel.ack`."""
        self._on().ack(self, multiple=multiple)

    def nack(self, *, multiple: bool = False, requeue: bool = True) -> None:
        """As `Channel.nack`."""
        self._on().nack(self, multiple=multiple, requeue=requeue)

    def reject(self, *, requeue: bool = True) -> None:
        """As `Channel.reject`."""
        self._on().reject(self, requeue=requeue)

    def _on(self) -> Channel:
        assert self.channel is not None, "a delivery made by hand"
        return self.channel


def _death(entry: dict[str, Any]) -> Death:
    time = entry.get("time")
    return Death(
        queue=entry.get("queue", ""),
        reason=entry.get("reason", ""),
        count=entry.get("count", 1),
        exchange=entry.get("exchange", ""),
        routing_keys=tuple(entry.get("routing-keys") or ()),
        time=datetime.fromtimestamp(time.seconds, UTC) if isinstance(time, Timestamp) else None,
        original_expiration=entry.get("original-expiration"),
    )
