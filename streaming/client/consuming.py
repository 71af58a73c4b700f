"""A consumer as its user sees it: an iterator, or a callback that the channel calls."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

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
        self._waiting: queue.SimpleQueue[tuple[Callback, Delivery] | None] = queue.SimpleQueue()
        self._stopping = False
        self._error: ClientError | None = None

    def arrive(self, callback: Callback, delivery: Delivery) -> None:
        """A delivery for a callback."""
        self._waiting.put((callback, delivery))

    def stop(self, error: ClientError | None = None) -> None:
        """Let `run` return, or raise the error."""
        self._stopping = True
        self._error = self._error or error
        self._waiting.put(None)

    def run(self, timeout_s: float | None) -> None:
        """Call callbacks until `stop`, or for so long; what one raises ends it."""
        self._stopping = False
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopping:
            left_s = None if ends_s is None else max(ends_s - time.monotonic(), 0)
            try:
                work = self._waiting.get(timeout=left_s)
            except queue.Empty:
                return
            if work is not None:
                callback, delivery = work
                callback(delivery)
        if self._error is not None:
            raise self._error
