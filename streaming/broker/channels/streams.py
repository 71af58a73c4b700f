"""Deliveries that are not settled yet, under one label: of a consumer, or of a channel's gets.

In a stream deliveries are numbered 0, 1, 2, ... and paged by number: a page is read when one of its
deliveries is settled, so a channel with a million of them costs no more than one with ten.

Of a delivery whose queue was deleted a mark stays, as in RabbitMQ: it settles nothing, but
`multiple` may go up to it, and the consumer timeout counts it. It goes when it is settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message
from streaming.broker.state.encoding import PageCodec
from streaming.broker.state.schema import NO_QUEUE, Delivery, StreamRecord

if TYPE_CHECKING:
    from streaming.broker.channels.channel import Channel
    from streaming.broker.state.paged_fifo import StateStore

PAGE_BITS: Final = 10
"""Deliveries 0..1023 of a stream are on page 0, and so on."""


DELIVERIES = PageCodec(Delivery)

_NOTHING: Final = Copy(NO_COPY, Message(0, 0, 0, 0, 0, 0), Envelope("", ()), 0, NEVER, NO_COPY)
"""What a mark holds: the copy is gone."""


class Stream:
    """Deliveries under one label, by number.

    Attributes:
        queue_number, prefetch, auto_ack: a consumer's; `active` until it is cancelled.
        key: channel and stream number: how queues refer to a consumer.
        id: what delivery ids begin with.
        unacked: how many deliveries are not settled, marks included.
        room: how many there may be.
        pages: the pages that hold any -> how many, as of the last save.
    """

    __slots__ = (
        "_loaded",
        "_prefix",
        "_store",
        "active",
        "auto_ack",
        "channel",
        "id",
        "key",
        "label",
        "next_number",
        "number",
        "pages",
        "prefetch",
        "queue_number",
        "room",
        "unacked",
    )

    def __init__(self, store: StateStore, channel: Channel, record: StreamRecord) -> None:
        self._store = store
        self.id = f"{channel.number}.{record.number}"
        self._prefix = f"d{self.id}"
        self._loaded: dict[int, dict[int, Delivery]] = {}
        self.channel = channel
        self.key = (channel.number, record.number)
        self.number = record.number
        self.label = record.label
        self.next_number = record.next_number
        self.pages: dict[int, int] = dict(record.pages)
        self.unacked = sum(self.pages.values())
        self.queue_number = record.queue_number
        self.prefetch = record.prefetch
        self.auto_ack = record.auto_ack
        self.active = record.active
        self.room = record.prefetch if record.prefetch and not record.auto_ack else NEVER

    @property
    def has_room(self) -> bool:
        """Whether the prefetch limit allows one more."""
        return self.unacked < self.room

    def add(self, delivery: Delivery) -> None:
        """Keep an unacked delivery; numbers only grow."""
        page_number = delivery.number >> PAGE_BITS
        page = self._loaded.get(page_number)
        if page is None:
            page = self._page(page_number)
        page[delivery.number] = delivery
        self.unacked += 1

    def take(self, number: int) -> Delivery | None:
        """Take a delivery out; None if it is not here (any more)."""
        page_number = number >> PAGE_BITS
        page = self._loaded.get(page_number)
        if page is None:
            if page_number not in self.pages:
                return None
            page = self._page(page_number)
        delivery = page.pop(number, None)
        if delivery is not None:
            self.unacked -= 1
            if not page:
                self._forget(page_number)
        return delivery

    def find(self, number: int) -> Delivery | None:
        """A delivery, or its mark, that stays here; None if it is not here (any more)."""
        if number >> PAGE_BITS not in self.pages:
            return None
        return self._page(number >> PAGE_BITS).get(number)

    def take_up_to(self, tag: int) -> Iterator[Delivery]:
        """Take out the deliveries with a tag up to this one, in order."""
        while self.pages:
            page_number = min(self.pages)
            page = self._page(page_number)
            for number in list(page):
                if page[number].tag > tag:
                    return
                delivery = self.take(number)
                assert delivery is not None
                yield delivery

    def tagged_up_to(self, tag: int) -> Iterator[tuple[Stream, Delivery]]:
        """As `take_up_to`, each with this stream."""
        for delivery in self.take_up_to(tag):
            yield self, delivery

    def take_of_queue(self, queue_number: int) -> Iterator[Delivery]:
        """Take out the deliveries of one queue, which is deleted; their marks stay."""
        for page_number in sorted(self.pages):
            page = self._page(page_number)
            for number, delivery in page.items():
                if delivery.queue_number == queue_number:
                    page[number] = Delivery(
                        delivery.tag, number, NO_QUEUE, delivery.at_ms, _NOTHING
                    )
                    yield delivery

    def oldest_ms(self) -> int:
        """When the oldest unacked delivery was handed out; NEVER if there is none."""
        if not self.pages:
            return NEVER
        page = self._page(min(self.pages))
        return next(iter(page.values())).at_ms

    def lowest_number(self) -> int:
        """No delivery has a lower number; NEVER if there is none."""
        return min(self.pages) << PAGE_BITS if self.pages else NEVER

    def save(self) -> StreamRecord:
        """Write the pages in memory and give the rest; the stream is not used after this."""
        for page_number, page in self._loaded.items():
            self.pages[page_number] = len(page)
            self._store.write(f"{self._prefix}/{page_number}", DELIVERIES.encode(page.values()))
        return StreamRecord(
            self.number,
            self.label,
            self.next_number,
            list(self.pages.items()),
            self.queue_number,
            self.prefetch,
            self.auto_ack,
            self.active,
        )

    def _page(self, page_number: int) -> dict[int, Delivery]:
        page = self._loaded.get(page_number)
        if page is None:
            page = {}
            if self.pages.setdefault(page_number, 0):
                data = self._store.read(f"{self._prefix}/{page_number}")
                assert data is not None, f"page {self._prefix}/{page_number} is missing"
                page = {delivery.number: delivery for delivery in DELIVERIES.decode(data)}
            self._loaded[page_number] = page
        return page

    def _forget(self, page_number: int) -> None:
        del self.pages[page_number]
        del self._loaded[page_number]
        self._store.delete(f"{self._prefix}/{page_number}")


Consumer = Stream
"""A stream with `queue_number` is a consumer."""
