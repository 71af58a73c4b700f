"""The traffic of the demo, on two threads: the desk (confluent-kafka) and shipping (kafka-python).

start() --> topics there? --> topology declared --> publishing and consuming
                                                        | stop()
                              closed <-- consumers close <-- the shop closes, work is finished
"""

import threading
from collections.abc import Callable
from typing import Final

from streaming.demo.addresses import Addresses
from streaming.demo.shipping import Shipping
from streaming.demo.shop_client import Desk
from streaming.demo.traffic_counters import Counts

JOIN_S: Final = 40.0


class Traffic:
    """Publisher and consumers against one job.

    Attributes:
        counts: what they did.
        opened: set once the topology stands and messages flow.
        failure: why they ended by themselves, if they did.
    """

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self.counts = Counts()
        self.opened = threading.Event()
        self.failure: Exception | None = None
        self._shop_closed = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for name, work in (("demo-desk", self._desk), ("demo-shipping", self._shipping))
        ]

    def start(self) -> None:
        """Begin; returns at once."""
        for thread in self._threads:
            thread.start()

    def close_shop(self) -> None:
        """Stop publishing; consumers go on."""
        self._shop_closed.set()

    def stop(self) -> None:
        """Stop publishing and close the consumers."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_S)

    @property
    def is_running(self) -> bool:
        """Whether it has neither failed nor been stopped."""
        return self.failure is None and not self._stopping.is_set()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001 (the thread's owner looks at it)
            self.failure = self.failure or failure
            self._stopping.set()

    def _desk(self) -> None:
        desk = Desk(self._addresses, self.counts)
        try:
            while not desk.topics_exist():
                if self._stopping.wait(0.5):
                    return
            asked = desk.begin()
            while not desk.answered(asked):
                if self._stopping.is_set():
                    return
            desk.open()
            self.opened.set()
            while not self._stopping.is_set():
                desk.work(sell=not self._shop_closed.is_set())
            desk.close_channels()
            desk.wait_for_confirms()
        finally:
            desk.close()

    def _shipping(self) -> None:
        while not self.opened.wait(0.2):
            if self._stopping.is_set():
                return
        shipping = Shipping(self._addresses, self.counts)
        try:
            shipping.open()
            while not self._stopping.is_set():
                shipping.work()
        finally:
            shipping.close()
