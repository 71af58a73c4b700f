"""A consumer as its user sees it: an iterator, or a callback that the channel calls."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streaming.client.errors import ClientError

if TYPE_CHECKING:
    from streaming.client.channel import Channel
    from streaming.client.messages import Delivery

Callback = Callable[["Delivery"], None]


class Consumer:
    """Deliveries of one queue, in order; made by `Channel.consume`.

    Iterating waits for deliveries. It ends when the consumer is cancelled or its channel closed by
    us, or when `timeout_s` passes without a delivery; it raises what the broker closed the channel
    for.

    Attributes:
        tag: the consumer tag.
        queue: what is consumed.
    """

    def __init__(
        self,
        channel: Channel,
        tag: str,
        queue_name: str,
        prefetch: int,
        *,
        auto_ack: bool,
        timeout_s: float | None,
        callback: Callback | None,
    ) -> None:
        self.channel = channel
        self.tag = tag
        self.queue = queue_name
        self.prefetch = prefetch
        self.auto_ack = auto_ack
        self.callback = callback
        self._timeout_s = timeout_s
        self._arrived: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._ended = False
        self._error: ClientError | None = None

    def __iter__(self) -> Iterator[Delivery]:
        while True:
            delivery = self.next(self._timeout_s)
            if delivery is None:
                return
            yield delivery

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """The next delivery; None when there will be none, or none came in time.

        Args:
            timeout_s: None waits as long as it takes.

        Raises:
            BrokerError: the broker closed the channel.
        """
        try:
            delivery = self._arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if delivery is None:
            self._arrived.put(None)  # for whoever asks again
            if self._error is not None:
                raise self._error
        return delivery

    def document(self) -> dict[str, Any]:
        """The command that starts it."""
        return {
            "op": "consume",
            "queue": self.queue,
            "as": self.tag,
            "prefetch": self.prefetch,
            "auto_ack": self.auto_ack,
            "lease_ms": self.channel.lease_ms,
        }

    def cancel(self) -> None:
        """As `Channel.cancel`."""
        self.channel.cancel(self)

    # -- for the channel, on the reader's thread

    def arrive(self, delivery: Delivery) -> None:
        """A delivery."""
        if not self._ended:
            self._arrived.put(delivery)

    def end(self, error: ClientError | None = None) -> None:
        """No more will come."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._arrived.put(None)

    def drop_unseen(self) -> None:
        """What arrived and nobody has looked at is somebody else's now."""
        with suppress(queue.Empty):
            while True:
                self._arrived.get_nowait()
        if self._ended:
            self._arrived.put(None)

    def unseen(self) -> list[Delivery]:
        """What arrived and nobody has looked at; taken out."""
        found = []
        while not self._arrived.empty():
            delivery = self._arrived.get()
            if delivery is not None:
                found.append(delivery)
        self._arrived.put(None)
        return found


class Callbacks:
    """What `Channel.start_consuming` works off: the deliveries of all consumers with a callback."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Consumer, Delivery]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._error: ClientError | None = None

    def arrive(self, consumer: Consumer, delivery: Delivery) -> None:
        """A delivery for a consumer's callback."""
        with self._changed:
            self._waiting.append((consumer, delivery))
            self._changed.notify()

    def take_out(self, consumer: Consumer) -> list[Delivery]:
        """What nobody has been called with of one consumer; `run` sees whether it is needed yet."""
        with self._changed:
            found = [delivery for owner, delivery in self._waiting if owner is consumer]
            kept = [each for each in self._waiting if each[0] is not consumer]
            self._waiting = deque(kept)
            self._changed.notify()
        return found

    def stop(self, error: ClientError | None = None) -> None:
        """Let `run` return, or raise the error, then and ever after."""
        with self._changed:
            self._stopping = True
            self._error = self._error or error
            self._changed.notify()

    def run(self, timeout_s: float | None, is_needed: Callable[[], bool]) -> None:
        """Call callbacks until `stop`, or for so long; what one raises ends it."""
        self._stopping = False
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while is_needed():
            with self._changed:
                if not self._changed.wait_for(
                    lambda: self._waiting or self._stopping or not is_needed(), _left(ends_s)
                ):
                    break
                if self._stopping or not self._waiting:
                    break
                consumer, delivery = self._waiting.popleft()
            assert consumer.callback is not None, "a consumer without callback has its own queue"
            consumer.callback(delivery)
        if self._error is not None:
            raise self._error


def _left(ends_s: float | None) -> float | None:
    return None if ends_s is None else max(ends_s - time.monotonic(), 0)
