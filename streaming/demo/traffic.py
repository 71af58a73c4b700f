"""The demo's traffic: a shop that publishes orders, and four workers.

start() --> the broker answers --> topology declared --> publishing and consuming
                                                           | close_shop(), stop()
                               closed <-- consumers closed <-- no more publishes

In the demo they are AMQP clients with pika, of the front that the demo starts. Alone
(`--traffic-only`) they are clients of the wire format, of a job that runs elsewhere.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.console import Console

from streaming.client.address import Address
from streaming.demo.errors import DemoError
from streaming.demo.kafka_shop import KafkaShop
from streaming.demo.order_process import (
    GOOD_RELEASE,
    INVOICES,
    PAYMENTS,
    PREFETCH,
    SHIPPING,
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
from streaming.demo.shop import Desk, Incoming, Shop
from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.waiting import Flag
from topology.errors import InvalidDocumentError, Problem

if TYPE_CHECKING:
    from streaming.config import JobConfig

ORDERS_PER_S: Final = 40.0
QUOTE_WORK_S: Final = 0.4
LOOK_EVERY_S: Final = 0.05
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
    """A publisher and consumers of one broker; `opened` is set once messages flow."""

    def __init__(self, shop: Shop) -> None:
        self._broker = shop
        self.counters = TrafficCounters()
        self.opened = threading.Event()
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
        if not self.opened.is_set():
            self._broker.close()  # ends what waits for an answer
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
        if not self._broker.open(self._stopping):
            return
        try:
            for queue in PREFETCH:
                worker = self._thread(self._work, f"demo-{queue}", queue)
                self._threads.append(worker)
                worker.start()
            self.opened.set()
            with self._broker.desk() as desk:
                self._sell(desk)
        finally:
            self._broker.close()

    def _sell(self, desk: Desk) -> None:
        """Publish the orders that are due, until the demo stops."""
        number = first = self._broker.first_order()
        opened_s = time.monotonic()
        while not self._stopping.is_set():
            desk.rest(LOOK_EVERY_S)
            if self._shop_closed.is_set():
                continue
            due = first + int((time.monotonic() - opened_s) * ORDERS_PER_S)
            while number < due and not self._stopping.is_set():
                self._publish(desk, order(number))
                number += 1

    def _publish(self, desk: Desk, message: Order) -> None:
        self.counters.add("published")
        desk.publish(message, self._confirmed)

    def _confirmed(self, is_taken: bool) -> None:  # noqa: FBT001 (the only thing it says)
        self.counters.add("confirmed" if is_taken else "nacked")

    def _work(self, queue: str) -> None:
        """Settle the deliveries of one queue until the shop closes."""
        with self._broker.desk() as desk:
            for delivery in desk.deliveries(queue, PREFETCH[queue]):
                if self._stopping.is_set():
                    return
                if delivery is None:
                    continue
                decision = self._decide(queue, delivery)
                if decision in {"ack", "park"}:
                    # Publish before the ack: after a crash in between, it is delivered again.
                    if queue == PAYMENTS:
                        message = parked if decision == "park" else paid
                        self._publish(desk, message(delivery.body))
                    delivery.ack()
                    self.counters.add("acked")
                else:
                    delivery.nack(requeue=decision == "requeue")
                    self.counters.add("requeued" if decision == "requeue" else "rejected")
                if queue == INVOICES:
                    self.counters.add(f"invoices {decision}ed")

    def _decide(self, queue: str, delivery: Incoming) -> Decision:
        if queue == PAYMENTS:
            return payment(delivery.body, delivery.headers)
        if queue == INVOICES:
            return invoice(delivery.headers, self._release)
        if queue == SHIPPING:
            return shipment(delivery.body)
        self._stopping.wait(QUOTE_WORK_S)
        return "ack"


def traffic_vhost(config: "JobConfig") -> str:
    """The vhost in which clients of the wire format can work: /, or else the first such one.

    Raises:
        InvalidDocumentError: all vhosts are sequenced.
    """
    possible = [name for name, vhost in config.vhosts.items() if not vhost.sequenced]
    if not possible:
        what = (
            "all are sequenced, but the traffic consists of clients of the wire format: add a "
            "vhost without `sequenced = true`, and start the job again"
        )
        raise InvalidDocumentError((Problem("vhosts", what),))
    return DEFAULT_VHOST if DEFAULT_VHOST in possible else possible[0]


def run_traffic_only(
    address: Address, seconds: float | None, stopping: Flag, console: Console
) -> None:
    """Publish and consume with a job that runs elsewhere.

    Args:
        seconds: from the moment the topology is declared; None: until `stopping` is set.

    Raises:
        DemoError: the traffic cannot continue.
    """
    shop = KafkaShop(address)
    traffic = Traffic(shop)
    traffic.start()
    say(console, f"waiting for {shop.place}")
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
