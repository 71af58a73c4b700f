"""Channels: the sessions of clients, with the consumers and the unacked deliveries of each.

Each consumer of a channel numbers its deliveries 0, 1, 2, ...; all gets of a channel share one
consumer, number 0. Across the consumers of a channel, delivery tags give the order for `multiple`,
recover and close (R-SET-3, R-SET-4).
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from streaming.broker.channels.deliveries import Deliveries
from streaming.broker.channels.held_back import HeldBack
from streaming.broker.channels.limiter import Limiter
from streaming.broker.events import Actor
from streaming.broker.message import NEVER
from streaming.broker.state.schema import ChannelRecord, ConsumerRecord, Delivery
from streaming.broker.state.store import StateStore

MIN_CROWD: Final = 64
"""With fewer consumers and labels of gets, a channel does not look for settled ones."""

TAG_BITS: Final = 44
"""In the index of tags, a delivery's number takes these bits, the consumer's those above."""

_NUMBER: Final = (1 << TAG_BITS) - 1


class Consumer:
    """Who gets deliveries under one label: a consumer, or a channel's gets.

    Attributes:
        queue_number, prefetch, auto_ack, priority, exclusive: of a consumer; `active` until it is
            cancelled.
        key: channel and consumer number: how queues refer to it.
        id: the beginning of its delivery ids.
        deliveries: those that are not settled. The channel's limiter counts them.
        prefetch_window: how many deliveries may be unsettled; -1 if the channel is asked too: its
            limiter, or whether its deliveries are stopped.
        own_window: how many may be, as far as the consumer alone is concerned.
        limited: whether the channel's limiter allows its deliveries, not only counts them.
        in_line: whether it waits for copies of its queue; only `Queue` changes it.
        left_line: numbers the times that consumers of the channel had to leave their lines.
        next_number_before: the number of its first delivery in this batch.
    """

    __slots__ = (
        "active",
        "auto_ack",
        "channel",
        "deliveries",
        "exclusive",
        "id",
        "in_line",
        "key",
        "label",
        "left_line",
        "limited",
        "next_number",
        "next_number_before",
        "number",
        "own_window",
        "prefetch",
        "prefetch_window",
        "priority",
        "queue_number",
    )

    def __init__(self, store: StateStore, channel: Channel, record: ConsumerRecord) -> None:
        self.id = f"{channel.number}.{record.number}"
        self.deliveries = Deliveries(store, f"d{self.id}", record.pages)
        self.channel = channel
        self.key = (channel.number, record.number)
        self.number = record.number
        self.label = record.label
        self.next_number = self.next_number_before = record.next_number
        self.queue_number = record.queue_number
        self.prefetch = record.prefetch
        self.auto_ack = record.auto_ack
        self.active = record.active
        self.priority = record.priority
        self.exclusive = record.exclusive
        self.own_window = record.prefetch if record.prefetch and not record.auto_ack else NEVER
        self.prefetch_window = self.own_window
        self.limited = record.limited
        self.limit(channel.limiter)
        self.in_line = record.in_line
        self.left_line = record.left_line

    def limit(self, limiter: Limiter | None) -> None:
        """Let the channel's limiter, or none, count its deliveries."""
        if self.number:  # RabbitMQ does not count gets
            self.deliveries.limiter = limiter
            asks = self.channel.stopped or (limiter is not None and self.limited)
            self.prefetch_window = -1 if asks else self.own_window

    @property
    def has_room(self) -> bool:
        """Whether prefetch and the channel's limit allow one more delivery."""
        if self.deliveries.unacked < self.prefetch_window:
            return True
        limiter = self.deliveries.limiter
        if self.channel.stopped:
            return False
        return self.limited and limiter is not None and self.has_own_room and limiter.has_room

    @property
    def has_own_room(self) -> bool:
        """Whether its own prefetch allows one more delivery."""
        return self.deliveries.unacked < self.own_window

    def passes_limiter(self) -> bool:
        """Whether the channel's limiter allows the delivery that follows; it is counted."""
        limiter = self.deliveries.limiter
        if limiter is None or not self.limited or not (self.has_own_room and limiter.has_room):
            return False
        if self.channel.stopped:
            return False
        if not self.auto_ack:
            limiter.volume += 1
        return True

    def leave_line(self) -> None:
        """Note that it had no room when it was its turn."""
        self.in_line = False
        channel = self.channel
        channel.left_line += 1
        self.left_line = channel.left_line
        if self.deliveries.unacked < self.own_window:
            channel.hold(self)

    def save(self) -> ConsumerRecord:
        """Write the loaded pages and return the record. Do not use the consumer afterwards."""
        return ConsumerRecord(
            self.number,
            self.label,
            self.next_number,
            self.deliveries.save(),
            self.queue_number,
            self.prefetch,
            self.auto_ack,
            self.active,
            self.limited,
            self.in_line,
            self.left_line,
            self.priority,
            self.exclusive,
        )


Candidate = tuple[Consumer, int, int]
"""A consumer that a label may mean, the number of the label's 0 there, and how many follow."""


class Channel:
    """A client's session: (user, name) identifies it (D3b).

    Attributes:
        lease_ms: how long it lives without a command; None for ever.
        prefetch: that of consumers started from now on, unless they name one.
        limiter: the limit on all its consumers together, if there is one.
        stopped: its consumers get nothing for now.
        left_line: how often its consumers had to leave the lines of their queues.
        tags: delivery tag -> consumer and number of an unsettled delivery, once its client settles
            by tag. One that was settled by ref may still be in here.
        connection: the number of the connection that it belongs to; below 0: none.
    """

    def __init__(self, store: StateStore, number: int, record: ChannelRecord) -> None:
        self._store = store
        self.number = number
        self.user = record.user
        self.name = record.name
        self.actor = Actor(record.user, record.name)
        self.next_tag = record.next_tag
        self.next_consumer = record.next_consumer
        self.prefetch = record.prefetch
        self.stopped = record.stopped
        self.limiter = Limiter(record.limit, record.volume) if record.limit else None
        self.left_line = record.left_line
        self.consumers: dict[int, Consumer] = {
            consumer.number: Consumer(store, self, consumer) for consumer in record.consumers
        }
        self.labels: dict[str, int] = {
            consumer.label: consumer.number
            for consumer in record.consumers
            if consumer.queue_number >= 0
        }
        self.get_labels: dict[str, tuple[int, int]] = {
            label: (first, count) for label, first, count in record.get_labels
        }
        self.tags: dict[int, int] | None = None
        self._held: HeldBack | None = None  # until it is needed
        self.lease_ms = record.lease_ms
        self.used_at_ms = record.used_at_ms
        self.lease_timer_ms = record.lease_timer_ms
        self.timeout_timer_ms = record.timeout_timer_ms
        self.connection = record.connection
        self._crowded = MIN_CROWD

    @classmethod
    def new(
        cls, store: StateStore, number: int, user: str | None, name: str, connection: int = -1
    ) -> Channel:
        """Create a channel."""
        gets = ConsumerRecord(0, "", 0, [])
        record = ChannelRecord(user, name, 1, 1, [gets], [], None, 0, NEVER, NEVER, connection)
        return cls(store, number, record)

    @property
    def owner(self) -> int:
        """The owner of its exclusive queues: its connection, or itself."""
        return self.number if self.connection < 0 else self.connection

    @property
    def gets(self) -> Consumer:
        """The deliveries of all gets."""
        return self.consumers[0]

    def active_consumers(self) -> list[Consumer]:
        """The consumers that are not cancelled, oldest first."""
        return [consumer for consumer in self.consumers.values() if consumer.active]

    def active_consumer(self, label: str) -> Consumer | None:
        """The consumer of this label, unless it is cancelled."""
        number = self.labels.get(label)
        consumer = None if number is None else self.consumers[number]
        return consumer if consumer is not None and consumer.active else None

    def add_get_label(self, label: str, first: int, count: int) -> None:
        """Keep the label of deliveries to a get."""
        self.get_labels[label] = (first, count)
        self._drop_if_crowded()

    def _drop_if_crowded(self) -> None:
        """Drop what is settled once it may be most of all: a channel may live for long."""
        if len(self.consumers) + len(self.get_labels) > self._crowded:
            self.drop_settled()
            self._crowded = 2 * (len(self.consumers) + len(self.get_labels)) + MIN_CROWD

    def new_consumer(
        self,
        label: str,
        queue_number: int,
        prefetch: int,
        *,
        auto_ack: bool,
        limited: bool,
        priority: int = 0,
        exclusive: bool = False,
    ) -> Consumer:
        """Create a consumer; it hides a cancelled one with the same label.

        Args:
            limited: whether the channel's limiter concerns it.
        """
        self._drop_if_crowded()
        number = self.next_consumer
        self.next_consumer += 1
        record = ConsumerRecord(
            number,
            label,
            0,
            [],
            queue_number,
            prefetch,
            auto_ack,
            active=True,
            limited=limited,
            priority=priority,
            exclusive=exclusive,
        )
        consumer = Consumer(self._store, self, record)
        self.consumers[number] = consumer
        self.labels[label] = number
        return consumer

    def set_limit(self, limit: int) -> bool:
        """Limit its unacked deliveries; 0: no more. Returns whether consumers may have room now."""
        limiter = self.limiter
        if not limit or limiter is None:
            unacked = sum(consumer.deliveries.unacked for consumer in self.consumers.values())
            self.limiter = Limiter(limit, unacked) if limit else None
            for consumer in self.consumers.values():
                consumer.limit(self.limiter)
            return limiter is not None
        had_room = limiter.has_room
        limiter.limit = limit
        return limiter.has_room and not had_room

    def stop(self, *, stopped: bool) -> None:
        """Stop deliveries to its consumers, or allow them again; none is served yet."""
        self.stopped = stopped
        self._held = None  # meanwhile settlements give room that nobody notes
        for consumer in self.consumers.values():
            consumer.limit(self.limiter)

    def hold(self, consumer: Consumer) -> None:
        """Note that a consumer was held back, or is so still and has room of its own again."""
        if self._held is not None:
            self._held.add(consumer)

    def next_held_back(self) -> list[Consumer]:
        """The consumers to go back into the line of their queue; none if there is no room."""
        if self.stopped or (self.limiter is not None and not self.limiter.has_room):
            return []
        if self._held is None:
            self._held = HeldBack(self.consumers.values())
        return self._held.next()

    def all_held_back(self) -> list[Consumer]:
        """The consumers that left their lines and have room, in the order in which they left."""
        found = [
            consumer
            for consumer in self.consumers.values()
            if consumer.active and not consumer.in_line and consumer.has_room
        ]
        return sorted(found, key=lambda consumer: consumer.left_line)

    def candidates(self, label: str, *, before_batch: bool = False) -> list[Candidate]:
        """Where deliveries under a label may be: of a get, then of consumers, newest first.

        Args:
            before_batch: exclude the deliveries that consumers got in this batch.
        """
        first, count = self.get_labels.get(label, (0, 0))
        found: list[Candidate] = [(self.gets, first, count)] if count else []
        for consumer in reversed(self.consumers.values()):
            if consumer.label == label and consumer.number:
                end = consumer.next_number_before if before_batch else consumer.next_number
                found.append((consumer, 0, end))
        return found

    def take_up_to(self, tag: int) -> list[tuple[Consumer, Delivery]]:
        """Remove and return every delivery with a tag up to this one, in order of tag (R-SET-3)."""
        parts = [
            [(consumer, delivery) for delivery in consumer.deliveries.take_up_to(tag)]
            for consumer in self.consumers.values()
            if consumer.deliveries.unacked
        ]
        if len(parts) == 1:
            taken = parts[0]
        else:
            taken = sorted(chain.from_iterable(parts), key=lambda entry: entry[1].tag)
        if self.tags is not None:
            for _consumer, delivery in taken:
                self.tags.pop(delivery.tag, None)
        return taken

    def take_tag(self, tag: int) -> tuple[Consumer, Delivery] | None:
        """Remove and return the delivery or tombstone of a tag; None if it is not here."""
        tags = self.by_tag()
        place = tags.pop(tag, None)
        if place is None:
            return None
        consumer = self.consumers.get(place >> TAG_BITS)
        delivery = None if consumer is None else consumer.deliveries.take(place & _NUMBER)
        if consumer is None or delivery is None:
            self.tags = None  # its client settles by ref too: the next time, only what is here
            return None
        return consumer, delivery

    def has_tag(self, tag: int) -> bool:
        """Whether a delivery or tombstone has this tag."""
        place = self.by_tag().get(tag)
        if place is None:
            return False
        consumer = self.consumers.get(place >> TAG_BITS)
        return consumer is not None and consumer.deliveries.find(place & _NUMBER) is not None

    def run_of_tags(self, first: int, last: int) -> tuple[Consumer | None, int, int]:
        """The deliveries from a tag on whose numbers follow each other as their tags do.

        Returns:
            Their consumer, None if there are none; the first one's number, and how many there are.
        """
        tags = self.by_tag()
        place = tags.get(first)
        if place is None:
            return None, 0, 0
        count = 1
        while first + count <= last and tags.get(first + count) == place + count:
            count += 1
        return self.consumers.get(place >> TAG_BITS), place & _NUMBER, count

    def forget_tags(self, first: int, count: int) -> None:
        """Note that a run of deliveries was settled."""
        tags = self.by_tag()
        for tag in range(first, first + count):
            del tags[tag]

    def by_tag(self) -> dict[int, int]:
        """The index of tags; the first use reads all deliveries of the channel."""
        tags = self.tags
        if tags is None:
            tags = self.tags = {
                delivery.tag: consumer.number << TAG_BITS | delivery.number
                for consumer in self.consumers.values()
                for delivery in consumer.deliveries
            }
        return tags

    def next_timer_ms(self) -> int:
        """The earlier of its timers."""
        return min(self.lease_timer_ms, self.timeout_timer_ms)

    def drop_settled(self) -> None:
        """Drop cancelled consumers and labels of gets that have no unacked delivery."""
        for number, consumer in list(self.consumers.items()):
            if number and not consumer.active and not consumer.deliveries.unacked:
                del self.consumers[number]
                if self.labels.get(consumer.label) == number:
                    del self.labels[consumer.label]
        if self.get_labels:
            oldest = self.gets.deliveries.lowest_number()
            self.get_labels = {
                label: (first, count)
                for label, (first, count) in self.get_labels.items()
                if first + count > oldest
            }

    def save(self) -> ChannelRecord:
        """Write pages and return the record. Do not use the channel afterwards."""
        self.drop_settled()
        return ChannelRecord(
            self.user,
            self.name,
            self.next_tag,
            self.next_consumer,
            [consumer.save() for consumer in self.consumers.values()],
            [(label, first, count) for label, (first, count) in self.get_labels.items()],
            self.lease_ms,
            self.used_at_ms,
            self.lease_timer_ms,
            self.timeout_timer_ms,
            self.connection,
            self.prefetch,
            0 if self.limiter is None else self.limiter.limit,
            0 if self.limiter is None else self.limiter.volume,
            self.left_line,
            self.stopped,
        )
