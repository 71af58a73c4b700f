"""A publisher and a consumer with pika, which go on after every failure."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from streaming.embedded.kafka.ports import LOOPBACK
from tests.bench.chaos.front.journal import Journal

FAILURES: Final = (pika.exceptions.AMQPError, AMQPConnectorException, OSError)
"""What pika raises when a front does not answer, or no longer: one family for each layer."""

WORK: Final = "work"
DEAD: Final = "dead"
_TO_DEAD: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}

_PATIENT: Final = "heartbeat=120&socket_timeout=3&stack_timeout=5&connection_attempts=1"
_PORTION: Final = 5


def connect(port: int) -> pika.BlockingConnection:
    """Connect to a front.

    Raises:
        One of FAILURES: nobody listens, or it does not serve the vhost.
    """
    url = f"amqp://guest:guest@{LOOPBACK}:{port}/%2F?{_PATIENT}"
    return pika.BlockingConnection(pika.URLParameters(url))


def declare(channel: BlockingChannel) -> None:
    """Declare the queues of all clients."""
    channel.queue_declare(WORK, durable=True, arguments=_TO_DEAD)
    channel.queue_declare(DEAD, durable=True)


class PikaClient:
    """Threads that publish and consume while a `with` block runs.

    Args:
        ports: of the fronts.
        pause_s: between two publishes.
    """

    def __init__(self, ports: Sequence[int], journal: Journal, pause_s: float) -> None:
        self._ports = ports
        self._journal = journal
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._numbers = itertools.count(1)
        sessions = {"publisher": self._publish, "consumer": self._consume}
        self._threads = [
            threading.Thread(target=self._repeat, args=each, name=f"pika {each[0]}", daemon=True)
            for each in sessions.items()
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop, and wait for that; after a failure they end once what they wait for does."""
        self._stopping.set()
        if kind is None:
            for thread in self._threads:
                thread.join()

    def publish_one(self, connection: str, channel: BlockingChannel) -> None:
        """Publish a message, and wait for its confirm."""
        name = f"pika-{next(self._numbers)}"
        properties = pika.BasicProperties(message_id=name, delivery_mode=2)
        self._journal.note(connection, "published", name)
        channel.basic_publish("", WORK, name.encode() * 20, properties)
        self._journal.note(connection, "confirmed", name)

    def _repeat(self, client: str, session: Callable[[str, BlockingChannel], None]) -> None:
        for port in itertools.cycle(self._ports):
            if self._stopping.is_set():
                return
            try:
                opened = connect(port)
            except FAILURES:
                time.sleep(0.1)
                continue
            name = self._journal.open(port, f"pika-{client}")
            try:
                session(name, opened.channel())
            except (
                pika.exceptions.ConnectionClosedByBroker,
                pika.exceptions.ChannelClosedByBroker,
            ) as closed:
                self._journal.note(name, "closed", f"{closed.reply_code} {closed.reply_text}")
            except FAILURES:  # it has ended without a word
                pass
            with suppress(*FAILURES):
                opened.close()

    def _publish(self, connection: str, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while not self._stopping.is_set():
            self.publish_one(connection, channel)
            time.sleep(self._pause_s)

    def _consume(self, connection: str, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=5 * _PORTION)
        taken: list[tuple[str, str]] = []
        for method, properties, _body in channel.consume(WORK, inactivity_timeout=0.5):
            if method is not None:
                taken.append(self._settle(connection, channel, method, properties))
            if len(taken) >= _PORTION or method is None:
                if taken:
                    channel.queue_declare(WORK, passive=True)
                for kind, name in taken:
                    self._journal.note(connection, kind, name)
                taken = []
            if self._stopping.is_set() and not taken:
                channel.cancel()
                return

    def _settle(
        self,
        connection: str,
        channel: BlockingChannel,
        method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
    ) -> tuple[str, str]:
        """Reject some, return some once, and ack the rest."""
        name, redelivered = str(properties.message_id), bool(method.redelivered)
        self._journal.note(connection, "delivered", name, redelivered=redelivered)
        tag = method.delivery_tag
        if name.endswith("3"):
            channel.basic_reject(tag, requeue=False)
            return "rejected", name
        if name.endswith("7") and not redelivered:
            channel.basic_nack(tag, requeue=True)
            return "requeued", name
        channel.basic_ack(tag)
        return "acked", name
