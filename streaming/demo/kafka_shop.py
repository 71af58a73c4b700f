"""The shop's programs as clients of the wire format: one `Connection` over Kafka for all."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from streaming.client import BrokerError, ClientError, Connection, Delivery, Publisher
from streaming.client.address import Address
from streaming.demo.errors import DemoError
from streaming.demo.order_process import PREFETCH, TOPOLOGY, Order
from streaming.demo.shop import Confirmed
from streaming.kafka_offsets import once_led

ANSWER_TIMEOUT_S: Final = 30.0
CONFIRM_TIMEOUT_S: Final = 2.0
_ENDS_TIMEOUT_S: Final = 5.0


class KafkaShop:
    """A shop at a job."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._publisher: Publisher | None = None
        self._is_open = False
        self.place = f"the job and its topics on {address.bootstrap}"

    def open(self, stopping: threading.Event) -> bool:
        """See `Shop`."""
        while not stopping.wait(0.5):
            with suppress(ClientError):  # Kafka, the topics or the job are not there yet
                self._connection = Connection(self._address, timeout_s=ANSWER_TIMEOUT_S)
                try:
                    self._connection.channel().close()
                except ClientError:
                    self._connection.close()
                    raise
                declare(self._connection)
                self._publisher = self._connection.publisher()
                self._is_open = True
                return True
        return False

    def first_order(self) -> int:
        """See `Shop`: a number for each record that the topic has had."""
        asking = Consumer({**self._address.properties, "group.id": "dlx-demo", "log_level": 0})
        try:
            place = TopicPartition(self._address.publishes, 0)
            _low, high = once_led(
                lambda: asking.get_watermark_offsets(place, timeout=_ENDS_TIMEOUT_S),
                _ENDS_TIMEOUT_S,
            )
            return int(high)
        finally:
            asking.close()

    @contextmanager
    def desk(self) -> Iterator["KafkaDesk"]:
        """See `Shop`."""
        assert self._connection is not None, "the shop is open"
        assert self._publisher is not None, "the shop is open"
        yield KafkaDesk(self._connection, self._publisher)

    def close(self) -> None:
        """See `Shop`."""
        if self._publisher is not None:
            with suppress(ClientError):  # the report counts what was not confirmed
                self._publisher.wait_for_confirms(CONFIRM_TIMEOUT_S)
        if self._connection is not None:
            self._connection.close()


class KafkaDesk:
    """The connection and the publisher that all threads share."""

    def __init__(self, connection: Connection, publisher: Publisher) -> None:
        self._connection = connection
        self._publisher = publisher

    def publish(self, message: Order, confirmed: Confirmed) -> None:
        """See `Desk`."""

        def done(confirm: Future[None]) -> None:
            confirmed(confirm.exception() is None)

        self._publisher.publish(
            message.exchange,
            message.routing_key,
            message.body,
            message.properties,
            message.headers,
        ).add_done_callback(done)

    def rest(self, seconds: float) -> None:
        """See `Desk`: the connection has threads of its own."""
        time.sleep(seconds)

    def deliveries(self, queue: str, prefetch: int) -> Iterator[Delivery]:
        """See `Desk`."""
        with self._connection.channel(channel_name(queue)) as channel:
            yield from channel.consume(queue, prefetch=prefetch)


def channel_name(queue: str) -> str:
    """The channel on which the worker of a queue consumes, in every run."""
    return f"demo-{queue}"


def declare(connection: Connection) -> None:
    """Declare the topology, and close the channels of an earlier run that was killed.

    Raises:
        DemoError: a declaration was refused.
    """
    for queue in PREFETCH:
        connection.send({"op": "close_channel"}, channel_name(queue))
    channel = connection.channel()
    *declarations, policy = TOPOLOGY
    for document in declarations:
        connection.send(document, channel.name)
    try:
        channel.sync()
        channel.close()
    except ClientError as error:
        raise DemoError(
            f"the broker refused the demo's topology: {error}\n"
            "Other declarations already use these names: choose another directory (--dir)."
        ) from error
    with suppress(BrokerError):  # only administrators may
        connection.request(policy, channel_name("policy"))
