"""What the demo's traffic needs of the client library that its shop uses."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from streaming.demo.order_process import Order

Confirmed = Callable[[bool], None]
"""Is told whether the broker has confirmed a message, perhaps on another thread."""


class Incoming(Protocol):
    """A delivery."""

    @property
    def body(self) -> bytes:
        """Its body."""

    @property
    def headers(self) -> dict[str, Any]:
        """Its AMQP headers."""

    def ack(self) -> None:
        """Acknowledge it."""

    def nack(self, *, requeue: bool) -> None:
        """Return it to its queue, or let it die."""


class Desk(Protocol):
    """A publisher, or a consumer that may publish. Each is for one thread."""

    def publish(self, message: Order, confirmed: Confirmed) -> None:
        """Publish a message."""

    def rest(self, seconds: float) -> None:
        """Wait; the connection stays alive meanwhile."""

    def deliveries(self, queue: str, prefetch: int) -> Iterator[Incoming | None]:
        """The deliveries of a queue until the shop closes; None now and then, if there is none."""


class Shop(Protocol):
    """The shop's connection to its broker."""

    @property
    def place(self) -> str:
        """What it waits for until it is open, in words."""

    def open(self, stopping: threading.Event) -> bool:
        """Connect to a broker that answers, and declare the topology; False if stopped before.

        Raises:
            DemoError: a declaration was refused.
        """

    def first_order(self) -> int:
        """The number of the first order of this run; those of earlier runs are below."""

    def desk(self) -> AbstractContextManager[Desk]:
        """A desk for the calling thread."""

    def close(self) -> None:
        """Disconnect; any thread may call it, also twice."""
