"""The deliveries of a channel: its consumers, and its gets that wait for an answer.

The job may execute a command later although its answer did not come in time. It executes the
commands of a channel in their order, so the client sends the command that undoes it right after it:

    get      requeues the deliveries by their ids, `label/0` and so on
    consume  cancels the consumer and requeues what it delivers before that

With automatic acknowledgement nothing can be requeued: what was delivered is settled.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from streaming.broker.lanes import lane_of, on_lane
from streaming.client import tracing
from streaming.client._wire import Inbound, delivery_of
from streaming.client.errors import ClientError, NotAllowedError
from streaming.client.messages import Delivery, Settler
from streaming.protocol.record_headers import REF
from streaming.waiting import take

Callback = Callable[[Delivery], None]

REFS_PER_COMMAND = 1_000
MAX_LANES = 10_000
"""More than a vhost can have."""


class Arrivals:
    """The deliveries of one consumer that its user has not seen.

    Attributes:
        has_ended: nothing more is added.
        on_change: called on the thread that added a delivery or ended the consumer.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self.has_ended = False
        self.on_change: Callable[[], None] = lambda: None
        self._error: ClientError | None = None

    def put(self, delivery: Delivery) -> None:
        """Add a delivery, unless the consumer has ended."""
        if not self.has_ended:
            self._queue.put(delivery)
            self.on_change()

    def end(self, error: ClientError | None = None) -> None:
        """Let `next` return None, or raise the error, after what has arrived."""
        if not self.has_ended:
            self.has_ended = True
            self._error = error
            self._queue.put(None)
            self.on_change()

    def next(self, timeout_s: float | None) -> Delivery | None:
        """Wait for a delivery; None after `timeout_s` or at the end."""
        try:
            delivery = take(self._queue, timeout_s)
        except queue.Empty:
            return None
        if delivery is None:
            self._queue.put(None)  # for the next call
            if self._error is not None:
                raise self._error
        return delivery

    def take_all(self) -> list[Delivery]:
        """Remove and return everything that has arrived."""
        found = []
        with suppress(queue.Empty):
            while True:
                delivery = self._queue.get_nowait()
                if delivery is not None:
                    found.append(delivery)
        if self.has_ended:
            self._queue.put(None)
        return found


class Consumer:
    """The deliveries of one queue, in order; created by `Channel.consume`.

    Iterate over it to wait for deliveries. The iteration ends when the consumer is cancelled, when
    its channel is closed by this client, or when `timeout_s` passes without a delivery. If the
    broker closes the channel, the iteration raises the broker's error.

    Attributes:
        tag: the consumer tag.
        queue: the name of the queue.
        prefetch: the most unacknowledged deliveries; 0 means no limit.
        auto_ack: whether deliveries are acknowledged automatically.
        callback: the function that `Channel.start_consuming` calls, if there is one.
    """

    def __init__(
        self,
        tag: str,
        queue_name: str,
        prefetch: int,
        *,
        auto_ack: bool,
        timeout_s: float | None,
        callback: Callback | None,
        cancel: Callable[[Consumer], None],
    ) -> None:
        self.tag = tag
        self.queue = queue_name
        self.prefetch = prefetch
        self.auto_ack = auto_ack
        self.callback = callback
        self.arrivals = Arrivals()
        self._timeout_s = timeout_s
        self._cancel = cancel

    def __iter__(self) -> Iterator[Delivery]:
        while (delivery := self.next(self._timeout_s)) is not None:
            yield delivery

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Wait for the next delivery.

        Args:
            timeout_s: None waits without limit.

        Returns:
            The delivery; None after `timeout_s`, or if the consumer has ended.

        Raises:
            BrokerError: the broker closed the channel.
        """
        delivery = self.arrivals.next(timeout_s)
        tracing.received([delivery])
        return delivery

    def cancel(self) -> None:
        """Stop the consumer; see `Channel.cancel`."""
        self._cancel(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A delivery that its consumer's callback has not seen; equal to itself alone."""

    consumer: Consumer
    delivery: Delivery


class CallbackQueue:
    """The deliveries of all consumers with a callback, for `Channel.start_consuming`."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        # There is no lock: Ctrl-C may come at any instant.
        self._changes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopping = False
        self._error: ClientError | None = None

    def put(self, consumer: Consumer, delivery: Delivery) -> None:
        """Add a delivery."""
        self._waiting.append(_Waiting(consumer, delivery))
        self._tell()

    def remove(self, consumer: Consumer) -> list[Delivery]:
        """Remove and return the deliveries of one consumer; `run` then checks who is left."""
        removed = []
        for waiting in self._waiting.copy():
            if waiting.consumer is consumer:
                with suppress(ValueError):  # `run` was faster
                    self._waiting.remove(waiting)
                    removed.append(waiting.delivery)
        self._tell()
        return removed

    def stop(self, error: ClientError | None = None) -> None:
        """Let `run` return, or raise the error now and in every later call."""
        self._error = self._error or error
        self._stopping = True
        self._tell()

    def run(self, timeout_s: float | None, is_needed: Callable[[], bool]) -> None:
        """Call callbacks until `stop`, `timeout_s` or an exception of a callback."""
        self._stopping = False
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while is_needed() and not self._stopping:
            if not self._waiting:
                left_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0)
                try:
                    take(self._changes, left_s)
                except queue.Empty:
                    break
                continue
            try:
                waiting = self._waiting.popleft()
            except IndexError:  # its consumer was removed
                continue
            callback = waiting.consumer.callback
            assert callback is not None, "a consumer without callback has its own queue"
            with tracing.processing(waiting.delivery):
                callback(waiting.delivery)
        if self._error is not None:
            raise self._error

    def _tell(self) -> None:
        """Wake `run`, which looks at everything for one waiting change."""
        if self._changes.empty():
            self._changes.put(None)


class Deliveries:
    """The gets and consumers waiting for deliveries on one channel, by label or consumer tag.

    Args:
        settler: the channel.
        send_cancel: sends the command that cancels a consumer, by its tag.

    Attributes:
        callbacks: the deliveries of consumers with a callback.
    """

    def __init__(self, settler: Settler, send_cancel: Callable[[str], None]) -> None:
        self._settler = settler
        self._send_cancel = send_cancel
        self.callbacks = CallbackQueue()
        self._lock = threading.Lock()
        self._gets: dict[str, list[Delivery]] = {}
        self._consumers: dict[str, Consumer] = {}
        self._unsettled: dict[str, int] = {}  # id -> lane, in the order of arrival
        self._abandoned_gets: set[str] = set()
        self._abandoned_tags: set[str] = set()

    # -- gets

    def begin_get(self, label: str) -> list[Delivery]:
        """Return the list that receives the deliveries of a get."""
        return self._gets.setdefault(label, [])

    def end_get(self, label: str) -> None:
        """Forget a get that was answered or failed."""
        self._gets.pop(label, None)

    def abandon_get(self, label: str, count: int, lanes: int) -> None:
        """Requeue whatever a get that was not answered in time delivers later."""
        self._abandoned_gets.add(label)
        names = [f"{label}/{number}" for number in range(count)]
        ids = [on_lane(name, lane) for lane in range(lanes) for name in names]
        with suppress(ClientError):  # the channel is closed: the broker requeues
            for first in range(0, len(ids), REFS_PER_COMMAND):
                self._settler.nack(ids[first : first + REFS_PER_COMMAND], requeue=True)

    def settled_by_user(self, ids: list[str]) -> list[str]:
        """Return the delivery ids without those that `abandon_get` settled."""
        return [each for each in ids if each.rpartition("/")[0] not in self._abandoned_gets]

    # -- settlements

    def settling(self, ids: list[str], *, multiple: bool) -> list[str]:
        """Note that deliveries are being settled; return their ids for the command.

        In a vhost of several lanes, `multiple` means the earlier deliveries on each lane that an id
        is of. So the last one on each other lane that arrived before is named too.
        """
        with self._lock:
            if not multiple:
                for one in ids:
                    self._unsettled.pop(one, None)
                return ids
            wanted = {one for one in ids if one in self._unsettled}
            last: dict[int, str] = {}
            arrived = list(self._unsettled) if wanted else []
            for one in arrived:
                last[self._unsettled.pop(one)] = one
                wanted.discard(one)
                if not wanted:
                    break
        return [*ids, *(one for one in last.values() if one not in ids)]

    # -- consumers

    def consumers(self) -> list[Consumer]:
        """Return the present consumers."""
        return list(self._consumers.values())

    def has_callbacks(self) -> bool:
        """Return whether a consumer has a callback."""
        return any(each.callback for each in self.consumers())

    def add(self, consumer: Consumer) -> None:
        """Add a consumer.

        Raises:
            NotAllowedError: its tag is in use.
        """
        with self._lock:
            if consumer.tag in self._consumers:
                raise NotAllowedError(
                    530, f"NOT_ALLOWED - attempt to reuse consumer tag '{consumer.tag}'"
                )
            self._consumers[consumer.tag] = consumer
            self._abandoned_tags.discard(consumer.tag)

    def remove(self, tag: str) -> Consumer | None:
        """End and remove a consumer; without callback it still hands out what has arrived."""
        consumer = self._pop(tag)
        if consumer is not None:
            self.callbacks.remove(consumer)
        return consumer

    def cancel(self, tag: str) -> None:
        """End and remove a consumer, and requeue what its user has not seen."""
        consumer = self._pop(tag)
        if consumer is not None:
            self._requeue([*consumer.arrivals.take_all(), *self.callbacks.remove(consumer)])

    def abandon_consumer(self, tag: str) -> None:
        """Cancel a consumer that was not answered in time; requeue whatever it delivers later."""
        with self._lock:
            self._abandoned_tags.add(tag)
        with suppress(ClientError):  # the channel is closed, and its consumers with it
            self._send_cancel(tag)
        self.cancel(tag)

    def drop_unseen(self) -> None:
        """Forget all deliveries that the user has not seen: the broker has requeued them."""
        self.forget_unsettled()
        for consumer in self.consumers():
            consumer.arrivals.take_all()
            self.callbacks.remove(consumer)

    def forget_unsettled(self) -> None:
        """Note that nothing is unsettled any more."""
        with self._lock:
            self._unsettled.clear()

    def end_all(self, error: ClientError | None) -> None:
        """End all consumers, with the error if there is one, and `start_consuming`."""
        for consumer in self.consumers():
            consumer.arrivals.end(error)
        self.callbacks.stop(error)

    def receive(self, record: Inbound) -> None:
        """Hand over a delivery; ignore one for an earlier user of the channel's name."""
        label = record.text(REF).rpartition("/")[0]
        with self._lock:  # an abandoned consumer must receive nothing more
            consumer = self._consumers.get(label)
            if consumer is not None:
                delivery = self._delivery(record, label)
                self._note_unsettled(delivery)
                if consumer.callback is not None:
                    self.callbacks.put(consumer, delivery)
                else:
                    consumer.arrivals.put(delivery)
                return
        if label in self._abandoned_tags:
            self._requeue([self._delivery(record, label)])
            return
        deliveries = self._gets.get(label)
        if deliveries is not None:
            delivery = self._delivery(record, "")
            with self._lock:
                self._note_unsettled(delivery)
            deliveries.append(delivery)

    def _note_unsettled(self, delivery: Delivery) -> None:
        if delivery.delivery_id:
            self._unsettled[delivery.delivery_id] = lane_of(delivery.delivery_id, MAX_LANES)[0]

    def _pop(self, tag: str) -> Consumer | None:
        with self._lock:
            consumer = self._consumers.pop(tag, None)
        if consumer is not None:
            consumer.arrivals.end()
        return consumer

    def _delivery(self, record: Inbound, consumer_tag: str) -> Delivery:
        delivery = delivery_of(record, consumer_tag)
        delivery.channel = self._settler
        return delivery

    def _requeue(self, deliveries: list[Delivery]) -> None:
        unacked = [each for each in deliveries if each.delivery_id]
        if unacked:
            with suppress(ClientError):  # the channel is closed: the broker requeues
                self._settler.nack(unacked, requeue=True)
