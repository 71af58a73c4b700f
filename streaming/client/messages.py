"""Messages as values: deliveries, returned messages, and the deaths in their `x-death` header."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias, TypedDict

import msgspec

from streaming.protocol.defaults import REQUEUE
from topology.values import Timestamp

Body: TypeAlias = bytes | bytearray | memoryview | str
"""What can be published; text is sent as UTF-8."""

KafkaHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]

Settled: TypeAlias = "ReceivedMessage | str | Iterable[ReceivedMessage | str]"
"""What a settlement can name: a delivery, its `delivery_id`, or several of them."""


class Properties(TypedDict, total=False):
    """AMQP's basic properties; all of them are optional.

    Attributes:
        content_type: MIME type of the body.
        content_encoding: such as `gzip`.
        delivery_mode: 2 is persistent; here every message is stored.
        priority: from 0 to 255.
        correlation_id: which request this answers.
        reply_to: the queue for the answer.
        expiration: a TTL in milliseconds, as text, such as `"60000"`.
        message_id: the publisher's id of the message.
        timestamp: seconds since 1970.
        type: the kind of message.
        user_id: the user who published it.
        app_id: the program that published it.
        cluster_id: not used.
    """

    content_type: str
    content_encoding: str
    delivery_mode: int
    priority: int
    correlation_id: str
    reply_to: str
    expiration: str
    message_id: str
    timestamp: int
    type: str
    user_id: str
    app_id: str
    cluster_id: str


class Settler(Protocol):
    """Settles deliveries; see `Channel`."""

    def ack(self, delivery: Settled, *, multiple: bool = False) -> None:
        """Acknowledge."""

    def nack(
        self,
        delivery: Settled,
        *,
        multiple: bool = False,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Requeue or dead-letter."""

    def reject(
        self, delivery: Settled, *, requeue: bool = REQUEUE, reason: str | None = None
    ) -> None:
        """Requeue or dead-letter."""


class Death(msgspec.Struct, frozen=True):
    """One entry of the `x-death` header (R-DEATH-1).

    Attributes:
        queue: the queue in which the message died.
        reason: `rejected`, `expired`, `maxlen` or `delivery_limit`.
        count: how many times it died there for this reason.
        exchange: the exchange that it was published to before it reached the queue.
        routing_keys: its routing keys then, `CC` included.
        time: when it first died there for this reason: UTC, whole seconds.
        original_expiration: its `expiration` property, if that expired it.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    time: datetime | None
    original_expiration: str | None = None


class _Message(msgspec.Struct, kw_only=True):
    """What deliveries and returned messages have in common.

    Attributes:
        body: the body as it was published; empty if `truncated` names it.
        exchange: the exchange that the message was published to; `""` is the default exchange.
        routing_key: the routing key that it was published with.
        properties: AMQP basic properties, such as `message_id` or `expiration`.
        headers: the AMQP headers table; `topology.values` lists the types.
        kafka_headers: the publisher's own Kafka headers, unchanged.
        truncated: part -> size of what a message too large for its Kafka topic lacks: entries of
            `x-death`, bytes of the `body`, and so on. Empty if the message is complete.
        origin: topic number, partition and offset of the Kafka record that published the message.
            `dlx dead-letters show 1/0/42` shows the complete message of origin (1, 0, 42). Known
            for truncated and returned messages.
    """

    body: bytes
    exchange: str
    routing_key: str
    properties: Properties
    headers: dict[str, Any]
    kafka_headers: KafkaHeaders = ()
    truncated: dict[str, int] = {}
    origin: tuple[int, int, int] | None = None


class Returned(_Message, kw_only=True):
    """A message that the broker returned to its publisher (R-ROUTE-9).

    Attributes:
        reply_code: 312 or 313.
        reply_text: `NO_ROUTE` or `NO_CONSUMERS`.
    """

    reply_code: int
    reply_text: str


class ReceivedMessage(_Message, kw_only=True):
    """A message that a queue delivered to this client.

    Attributes:
        queue: the queue that it came from.
        consumer_tag: the tag of the consumer; empty for `Channel.get`.
        redelivered: whether it was delivered before.
        delivery_count: how often it was returned to the queue before.
        delivery_id: identifies the delivery for settlements, also from another process. Empty
            with automatic acknowledgement.
        is_settled: whether this client has acknowledged, requeued or rejected it by its methods.
    """

    queue: str
    consumer_tag: str
    redelivered: bool
    delivery_count: int
    delivery_id: str
    is_settled: bool = False

    @property
    def x_death(self) -> list[Death]:
        """The deaths of the message, latest first; empty if it never died."""
        entries = self.headers.get("x-death")
        return [_death(entry) for entry in entries] if isinstance(entries, list) else []


class Delivery(ReceivedMessage, kw_only=True):
    """A message that a queue delivered to this client.

    Attributes:
        queue: the queue that it came from.
        consumer_tag: the tag of the consumer; empty for `Channel.get`.
        redelivered: whether it was delivered before.
        delivery_count: how often it was returned to the queue before.
        delivery_id: identifies the delivery for settlements, also from another process. Empty
            with automatic acknowledgement.
        is_settled: whether this client has acknowledged, requeued or rejected it by its methods.
        channel: the channel that received it and settles it.
    """

    channel: Settler | None = None

    def ack(self, *, multiple: bool = False) -> None:
        """Acknowledge the delivery; see `Channel.ack`."""
        self._settler().ack(self, multiple=multiple)
        self.is_settled = True

    def nack(
        self, *, multiple: bool = False, requeue: bool = REQUEUE, reason: str | None = None
    ) -> None:
        """Requeue the delivery, or dead-letter it with `requeue=False`; see `Channel.nack`."""
        self._settler().nack(self, multiple=multiple, requeue=requeue, reason=reason)
        self.is_settled = True

    def reject(self, *, requeue: bool = REQUEUE, reason: str | None = None) -> None:
        """Requeue the delivery, or dead-letter it with `requeue=False`; see `Channel.reject`."""
        self._settler().reject(self, requeue=requeue, reason=reason)
        self.is_settled = True

    def _settler(self) -> Settler:
        assert self.channel is not None, "only a delivery from a channel can be settled"
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
