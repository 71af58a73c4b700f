"""A service that books orders; one that fails is tried again later, and parked after five times.

orders --rejected--> retry --30 minutes--> orders ... --fifth failure--> parked
"""

import threading
from collections.abc import Callable

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

HALF_AN_HOUR_MS = 1_800_000
MAX_ATTEMPTS = 5


class OrderService:
    """Consumes orders in a thread of its own.

    Args:
        book: books one order; any exception means that it failed.
    """

    def __init__(
        self, url: str, book: Callable[[bytes], None], retry_after_ms: int = HALF_AN_HOUR_MS
    ) -> None:
        self._book = book
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        to_retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
        to_orders = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
        self._channel.queue_declare("parked", durable=True)
        self._channel.queue_declare("orders", durable=True, arguments=to_retry)
        self._channel.queue_declare(
            "retry", durable=True, arguments={"x-message-ttl": retry_after_ms, **to_orders}
        )
        self._channel.basic_qos(prefetch_count=10)
        self._channel.basic_consume("orders", self._consume)
        self._thread = threading.Thread(target=self._channel.start_consuming, daemon=True)

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def stop(self) -> None:
        """Stop consuming and close the connection."""
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join()
        self._connection.close()

    def _consume(
        self,
        channel: BlockingChannel,
        method: Basic.Deliver,
        properties: BasicProperties,
        body: bytes,
    ) -> None:
        try:
            self._book(body)
        except Exception:  # noqa: BLE001 - whatever it is, the order is tried again
            if _failures(properties) + 1 < MAX_ATTEMPTS:
                channel.basic_reject(method.delivery_tag, requeue=False)
                return
            channel.basic_publish("", "parked", body, properties)
        channel.basic_ack(method.delivery_tag)


def _failures(properties: BasicProperties) -> int:
    """How often the order was rejected before, as its `x-death` header says."""
    deaths = (properties.headers or {}).get("x-death", [])
    return sum(death["count"] for death in deaths if death["reason"] == "rejected")
