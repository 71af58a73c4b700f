"""The demo's traffic: a shop that publishes orders, and four workers, over one `Connection`.

start() --> the job answers --> topology declared --> publishing and consuming
                                                        | close_shop(), stop()
                            closed <-- consumers closed <-- no more publishes
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from streaming.client import BrokerError, ClientError, Connection, Delivery, Publisher
from streaming.client.address import Address
from streaming.demo.errors import DemoError
from streaming.demo.order_process import (
    GOOD_RELEASE,
    INVOICES,
    PAYMENTS,
    QUOTES,
    SHIPPING,
    TOPOLOGY,
    Decision,
    Order,
    invoice,
    order,
    paid,
    parked,
    payment,
    shipment,
)
from streaming.demo.screen import LINE_EVERY_S, say, traffic_words
from streaming.kafka_offsets import once_led

ORDERS_PER_S: Final = 40.0
QUOTE_WORK_S: Final = 0.4
PREFETCH: Final = {PAYMENTS: 100, INVOICES: 100, SHIPPING: 100, QUOTES: 1}
"""Queue with a worker -> its prefetch."""

ANSWER_TIMEOUT_S: Final = 30.0
KAFKA_TIMEOUT_S: Final = 5.0
CONFIRM_TIMEOUT_S: Final = 2.0
JOIN_TIMEOUT_S: Final = 40.0
AFTERWORK_S: Final = 3.0
"""How long consumers continue after the last publish."""

COUNTED: Final = ("published", "confirmed", "acked", "rejected", "requeued")


class TrafficCounters:
    """Counters by name, for several threads."""

    def __init__(self) -> None:
        self._counter: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """Add one."""
        with self._lock:
            self._counter[name] += 1

    def snapshot(self) -> dict[str, int]:
        """A copy of all counters."""
        with self._lock:
            return dict(self._counter)


class Traffic:
    """A publisher and consumers that use one job; `opened` is set once messages flow."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.counters = TrafficCounters()
        self.opened = threading.Event()
        self._connection: Connection | None = None
        self._failure: Exception | None = None
        self._shop_closed = threading.Event()
        self._release = GOOD_RELEASE
        self._stopping = threading.Event()
        self._threads = [self._thread(self._shop, "demo-shop")]

    def start(self) -> None:
        """Start; returns at once."""
        self._threads[0].start()

    def deploy(self, release: str) -> None:
        """Deploy another release of the invoices worker."""
        self._release = release

    def close_shop(self) -> None:
        """Stop publishing; consumers continue."""
        self._shop_closed.set()

    def stop(self) -> None:
        """Stop publishing and close the consumers; what they hold returns to its queue."""
        self._stopping.set()
        if self._connection is not None and not self.opened.is_set():
            self._connection.close()  # ends what waits for an answer
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_TIMEOUT_S)

    @property
    def is_running(self) -> bool:
        """Whether it has neither failed nor been stopped."""
        return not self._stopping.is_set()

    def raise_failure(self) -> None:
        """Raise `DemoError` if a thread has failed."""
        if isinstance(self._failure, DemoError):
            raise self._failure
        if self._failure is not None:
            raise DemoError(f"the traffic has failed: {self._failure}") from self._failure

    def _thread(self, work: Callable[..., None], name: str, *arguments: object) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)
            except Exception as failure:  # noqa: BLE001 (raise_failure raises it)
                if not self._stopping.is_set():
                    self._failure = self._failure or failure
                    self._stopping.set()

        return threading.Thread(target=guarded, name=name, daemon=True)

    def _shop(self) -> None:
        connection = self._connected()
        if connection is None:
            return
        with connection:
            declare(connection)
            publisher = connection.publisher()
            for queue in PREFETCH:
                worker = self._thread(self._work, f"demo-{queue}", connection, publisher, queue)
                self._threads.append(worker)
                worker.start()
            self.opened.set()
            self._sell(publisher)
            with suppress(ClientError):  # the report counts what was not confirmed
                publisher.wait_for_confirms(CONFIRM_TIMEOUT_S)

    def _connected(self) -> Connection | None:
        """A connection to a job that answers; None if the demo stops before there is one."""
        while not self._stopping.wait(0.5):
            with suppress(ClientError):  # Kafka, the topics or the job are not there yet
                self._connection = Connection(self._address, timeout_s=ANSWER_TIMEOUT_S)
                try:
                    self._connection.channel().close()
                except ClientError:
                    self._connection.close()
                    raise
                return self._connection
        return None

    def _sell(self, publisher: Publisher) -> None:
        """Publish the orders that are due, until the demo stops."""
        number = first = next_order(self._address)
        opened_s = time.monotonic()
        while not self._stopping.wait(0.05):
            if self._shop_closed.is_set():
                continue
            due = first + int((time.monotonic() - opened_s) * ORDERS_PER_S)
            while number < due and not self._stopping.is_set():
                self._publish(publisher, order(number))
                number += 1

    def _publish(self, publisher: Publisher, message: Order) -> None:
        self.counters.add("published")
        confirm = publisher.publish(
            message.exchange,
            message.routing_key,
            message.body,
            message.properties,
            message.headers,
        )
        confirm.add_done_callback(self._confirmed)

    def _confirmed(self, confirm: Future[None]) -> None:
        self.counters.add("confirmed" if confirm.exception() is None else "nacked")

    def _work(self, connection: Connection, publisher: Publisher, queue: str) -> None:
        """Settle the deliveries of one queue until the connection closes."""
        with connection.channel(channel_name(queue)) as channel:
            for delivery in channel.consume(queue, prefetch=PREFETCH[queue]):
                if self._stopping.is_set():
                    return
                decision = self._decide(queue, delivery)
                if decision in {"ack", "park"}:
                    # Publish before the ack: after a crash in between, it is delivered again.
                    if queue == PAYMENTS:
                        message = parked if decision == "park" else paid
                        self._publish(publisher, message(delivery.body))
                    delivery.ack()
                    self.counters.add("acked")
                else:
                    delivery.nack(requeue=decision == "requeue")
                    self.counters.add("requeued" if decision == "requeue" else "rejected")
                if queue == INVOICES:
                    self.counters.add(f"invoices {decision}ed")

    def _decide(self, queue: str, delivery: Delivery) -> Decision:
        if queue == PAYMENTS:
            return payment(delivery.body, delivery.headers)
        if queue == INVOICES:
            return invoice(delivery.headers, self._release)
        if queue == SHIPPING:
            return shipment(delivery.body)
        self._stopping.wait(QUOTE_WORK_S)
        return "ack"


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


def next_order(address: Address) -> int:
    """The number of the first order of this run: how many records earlier runs published."""
    asking = Consumer({**address.properties, "group.id": "dlx-demo", "log_level": 0})
    try:
        place = TopicPartition(address.publishes, 0)
        _low, high = once_led(
            lambda: asking.get_watermark_offsets(place, timeout=KAFKA_TIMEOUT_S), KAFKA_TIMEOUT_S
        )
        return int(high)
    finally:
        asking.close()


def run_traffic_only(
    address: Address, seconds: float | None, stopping: threading.Event, console: Console
) -> None:
    """Publish and consume with a job that runs elsewhere.

    Args:
        seconds: from the moment the topology is declared; None: until `stopping` is set.

    Raises:
        DemoError: the traffic cannot continue.
    """
    traffic = Traffic(address)
    traffic.start()
    say(console, f"waiting for the job and its topics on {address.bootstrap}")
    try:
        while not traffic.opened.is_set() and traffic.is_running and not stopping.wait(0.2):
            pass
        next_line_s = time.monotonic()
        ends_s = None if seconds is None else next_line_s + seconds
        while traffic.is_running and not stopping.wait(0.2):
            now_s = time.monotonic()
            if ends_s is not None and now_s >= ends_s:
                break
            if now_s >= next_line_s:
                next_line_s = now_s + LINE_EVERY_S
                say(console, traffic_words(traffic.counters.snapshot(), COUNTED))
        traffic.close_shop()
        stopping.wait(AFTERWORK_S)
    finally:
        traffic.stop()
    traffic.raise_failure()
    say(console, f"closed: {traffic_words(traffic.counters.snapshot(), COUNTED)}")
