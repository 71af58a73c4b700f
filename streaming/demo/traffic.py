"""The demo's traffic, on two threads: the shop (confluent-kafka) and shipping (kafka-python).

start() --> topics exist? --> topology declared --> publishing and consuming
                                                        | close_shop(), stop()
                            closed <-- consumers closed <-- no more publishes
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console

from streaming.demo.client_setup import Addresses, DemoError, TrafficCounters
from streaming.demo.order_process import GOOD_RELEASE
from streaming.demo.screen import LINE_EVERY_S, say, traffic_words
from streaming.demo.shipping_worker import ShippingWorker
from streaming.demo.shop_client import ShopClient

JOIN_TIMEOUT_S: Final = 40.0
AFTERWORK_S: Final = 3.0
"""How long consumers continue after the last publish."""

COUNTED: Final = ("published", "confirmed", "acked", "rejected", "requeued")


class Traffic:
    """A publisher and consumers that use one job; `opened` is set once messages flow."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self.counters = TrafficCounters()
        self.opened = threading.Event()
        self._failure: Exception | None = None
        self._shop_closed = threading.Event()
        self._release = GOOD_RELEASE
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for name, work in (("demo-shop", self._shop), ("demo-shipping", self._shipping))
        ]

    def start(self) -> None:
        """Start both threads; returns at once."""
        for thread in self._threads:
            thread.start()

    def deploy(self, release: str) -> None:
        """Deploy another release of the invoices worker."""
        self._release = release

    def close_shop(self) -> None:
        """Stop publishing; consumers continue."""
        self._shop_closed.set()

    def stop(self) -> None:
        """Stop publishing and close the consumers."""
        self._stopping.set()
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
            raise DemoError(f"the traffic has failed: {self._failure!r}") from self._failure

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001 (raise_failure raises it)
            self._failure = self._failure or failure
            self._stopping.set()

    def _shop(self) -> None:
        shop = ShopClient(self._addresses, self.counters)
        try:
            while not shop.topics_exist():
                if self._stopping.wait(0.5):
                    return
            reply_ids = shop.declare_topology()
            while not shop.is_declared(reply_ids):
                if self._stopping.is_set():
                    return
            shop.open()
            self.opened.set()
            while not self._stopping.is_set():
                shop.release = self._release
                shop.work(sell=not self._shop_closed.is_set())
            shop.close_channels()
            shop.wait_for_confirms()
        finally:
            shop.close()

    def _shipping(self) -> None:
        while not self.opened.wait(0.2):
            if self._stopping.is_set():
                return
        worker = ShippingWorker(self._addresses, self.counters)
        try:
            worker.open()
            while not self._stopping.is_set():
                worker.work()
        finally:
            worker.close()


def run_traffic_only(
    addresses: Addresses, seconds: float | None, stopping: threading.Event, console: Console
) -> None:
    """Publish and consume with a job that runs elsewhere.

    Args:
        seconds: from the moment the topology is declared; None: until `stopping` is set.

    Raises:
        DemoError: the traffic cannot continue.
    """
    traffic = Traffic(addresses)
    traffic.start()
    say(console, f"waiting for the job and its topics on {addresses.kafka['bootstrap.servers']}")
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
