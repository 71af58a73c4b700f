"""Who on a channel waits for deliveries: gets and consumers, by the labels they were asked with.

A command that got no answer in time may be carried out all the same, when the job comes to it.
Commands of a channel take effect in their order, so what takes it back is sent right behind it:

    get      its deliveries are given back by their refs, `label/0` and so on
    consume  the consumer is cancelled; what it is handed before that is given back as it arrives

With automatic ack there is nothing to give back: what was handed out is settled.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from streaming.client.consuming import Callbacks, Consumer
from streaming.client.errors import ClientError, NotAllowedError
from streaming.client.records import Inbound, delivery_of
from streaming.protocol.headers import REF

if TYPE_CHECKING:
    from streaming.client.channel import Channel
    from streaming.client.messages import Delivery

REFS_AT_ONCE = 1_000


class Recipients:
    """Those of one channel.

    Attributes:
        callbacks: of the consumers that have one.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.callbacks = Callbacks()
        self._lock = threading.Lock()
        self._gets: dict[str, list[Delivery]] = {}
        self._consumers: dict[str, Consumer] = {}
        self._given_back: set[str] = set()  # labels of gets that were given up
        self._cancelled: set[str] = set()  # tags of consumers that were given up

    # -- gets

    def begin_get(self, label: str) -> list[Delivery]:
        """Where its deliveries will be."""
        return self._gets.setdefault(label, [])

    def end_get(self, label: str) -> None:
        """It was answered, or failed."""
        self._gets.pop(label, None)

    def give_up_get(self, label: str, count: int) -> None:
        """Give back whatever it will have been handed."""
        self._given_back.add(label)
        refs = [f"{label}/{number}" for number in range(count)]
        with suppress(ClientError):  # the channel is closed: what was unacked is requeued
            for first in range(0, count, REFS_AT_ONCE):
                self._channel.nack(refs[first : first + REFS_AT_ONCE], requeue=True)

    def settled_by_user(self, refs: list[str]) -> list[str]:
        """Without those that `give_up_get` named."""
        return [ref for ref in refs if ref.rpartition("/")[0] not in self._given_back]

    # -- consumers

    def consumers(self) -> list[Consumer]:
        """Those there are now."""
        return list(self._consumers.values())

    def consumer(self, tag: str) -> Consumer | None:
        """The one of a tag."""
        return self._consumers.get(tag)

    def has_callbacks(self) -> bool:
        """Whether `start_consuming` has anybody to call."""
        return any(each.callback for each in self.consumers())

    def add(self, consumer: Consumer) -> None:
        """Hand it its deliveries from now on.

        Raises:
            NotAllowedError: there is one of that tag.
        """
        with self._lock:
            if consumer.tag in self._consumers:
                raise NotAllowedError(
                    530, f"NOT_ALLOWED - attempt to reuse consumer tag '{consumer.tag}'"
                )
            self._consumers[consumer.tag] = consumer
            self._cancelled.discard(consumer.tag)

    def remove(self, consumer: Consumer) -> None:
        """Hand it nothing more."""
        with self._lock:
            self._consumers.pop(consumer.tag, None)

    def give_up_consumer(self, consumer: Consumer) -> None:
        """Cancel it, and give back whatever it will have been handed."""
        with self._lock:
            self._consumers.pop(consumer.tag, None)
            self._cancelled.add(consumer.tag)
        with suppress(ClientError):  # the channel is closed, and its consumers with it
            self._channel.tell("cancel", **{"as": consumer.tag})
        self.give_back_unseen(consumer)

    def give_back_unseen(self, consumer: Consumer) -> None:
        """Requeue what a consumer was handed and nobody has looked at."""
        self._give_back([*consumer.unseen(), *self.callbacks.take_out(consumer)])

    def drop_unseen(self) -> None:
        """What arrived and nobody has looked at is somebody else's now."""
        for consumer in self.consumers():
            consumer.drop_unseen()
            self.callbacks.take_out(consumer)

    # -- on the reader's thread

    def arrive(self, record: Inbound) -> None:
        """A delivery; others are of somebody who used the channel's name before."""
        label = record.text(REF).rpartition("/")[0]
        with self._lock:  # who is given up is handed nothing behind our back
            consumer = self._consumers.get(label)
            if consumer is not None:
                delivery = self._delivery(record, label)
                if consumer.callback is None:
                    consumer.arrive(delivery)
                else:
                    self.callbacks.arrive(consumer, delivery)
                return
        if label in self._cancelled:
            self._give_back([self._delivery(record, label)])
            return
        deliveries = self._gets.get(label)
        if deliveries is not None:
            deliveries.append(self._delivery(record, ""))

    def _delivery(self, record: Inbound, consumer_tag: str) -> Delivery:
        delivery = delivery_of(record, consumer_tag)
        delivery.channel = self._channel
        return delivery

    def _give_back(self, deliveries: list[Delivery]) -> None:
        unacked = [each for each in deliveries if each.delivery_id]
        if unacked:
            with suppress(ClientError):  # the channel is closed: what was unacked is requeued
                self._channel.nack(unacked, requeue=True)
