"""The shop's programs as those of RabbitMQ's users: pika, unmodified, with a connection each."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from streaming.demo.errors import DemoError
from streaming.demo.order_process import TOPOLOGY, Order
from streaming.demo.shop import Confirmed

RETRY_S: Final = 0.5
IDLE_S: Final = 0.2
"""How long a consumer waits before it looks whether the shop closes."""

_CLOSED: Final = (AMQPError, OSError)


class AmqpShop:
    """A shop at an AMQP broker.

    Args:
        url: of its vhost.
        first_order: see `Shop`.
    """

    def __init__(self, url: str, first_order: int) -> None:
        self._parameters = pika.URLParameters(url)
        self._first_order = first_order
        self.place = f"the broker at {url}"

    def open(self, stopping: threading.Event) -> bool:
        """See `Shop`."""
        while not stopping.is_set():
            try:
                with pika.BlockingConnection(self._parameters) as connection:
                    declare(connection.channel())
            except ChannelClosedByBroker as error:
                raise DemoError(
                    f"the broker refused the demo's topology: {error.reply_text}\n"
                    "Other declarations already use these names: choose another directory (--dir)."
                ) from error
            except _CLOSED:  # it is not there yet
                stopping.wait(RETRY_S)
            else:
                return True
        return False

    def first_order(self) -> int:
        """See `Shop`."""
        return self._first_order

    @contextmanager
    def desk(self) -> Iterator["AmqpDesk"]:
        """See `Shop`."""
        with pika.BlockingConnection(self._parameters) as connection:
            yield AmqpDesk(connection.channel())

    def close(self) -> None:
        """See `Shop`: each desk closes its own connection."""


class AmqpDesk:
    """A channel with confirms."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery()

    def publish(self, message: Order, confirmed: Confirmed) -> None:
        """See `Desk`; returns when the broker has confirmed it."""
        properties = pika.BasicProperties(headers=message.headers, **message.properties)
        try:
            self._channel.basic_publish(
                message.exchange, message.routing_key, message.body, properties
            )
        except (NackError, UnroutableError):
            confirmed(False)  # noqa: FBT003 (what a future would say)
        else:
            confirmed(True)  # noqa: FBT003

    def rest(self, seconds: float) -> None:
        """See `Desk`: heartbeats are sent."""
        self._channel.connection.sleep(seconds)

    def deliveries(self, queue: str, prefetch: int) -> "Iterator[AmqpDelivery | None]":
        """See `Desk`."""
        self._channel.basic_qos(prefetch_count=prefetch)
        found = self._channel.consume(queue, inactivity_timeout=IDLE_S)
        try:
            for method, properties, body in found:
                if method is None:
                    yield None
                else:
                    headers = properties.headers or {}
                    yield AmqpDelivery(self._channel, method.delivery_tag, headers, body)
        finally:
            with suppress(*_CLOSED):
                self._channel.cancel()


class AmqpDelivery:
    """A delivery of a channel."""

    def __init__(self, channel: Any, tag: int, headers: Mapping[str, Any], body: bytes) -> None:
        self._channel = channel
        self._tag = tag
        self.headers = dict(headers)
        self.body = body

    def ack(self) -> None:
        """See `Incoming`."""
        self._channel.basic_ack(self._tag)

    def nack(self, *, requeue: bool) -> None:
        """See `Incoming`."""
        self._channel.basic_nack(self._tag, requeue=requeue)


def declare(channel: Any) -> None:
    """Declare the topology; doing it again changes nothing."""
    for step in TOPOLOGY:
        match step["op"]:
            case "declare_exchange":
                each = step["exchange"]
                channel.exchange_declare(
                    each["name"], each["type"], durable=True, arguments=each["arguments"]
                )
            case "declare_queue":
                each = step["queue"]
                channel.queue_declare(each["name"], durable=True, arguments=each["arguments"])
            case "bind":
                each = step["binding"]
                channel.queue_bind(each["destination"], each["source"], each["routing_key"])
