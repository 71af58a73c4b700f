"""The unacked deliveries of a consumer, or of a channel's gets, by number.

They are paged, and a page is read when one of its deliveries is settled: a channel with a million
deliveries costs no more than one with ten.

Deleting a queue leaves a tombstone for each of its unacked deliveries, as RabbitMQ does: it settles
nothing, but `multiple` may go up to it, and the consumer timeout counts it. Settling removes it.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final

from streaming.broker.channels.limiter import Limiter
from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message
from streaming.broker.state.pages import PageCodec
from streaming.broker.state.schema import NO_QUEUE, Delivery
from streaming.broker.state.store import StateStore

PAGE_BITS: Final = 10
PAGE_SIZE: Final = 1 << PAGE_BITS
"""Deliveries 0..1023 of a consumer are on page 0, and so on."""

DELIVERIES = PageCodec(Delivery)

_NOTHING: Final = Copy(NO_COPY, Message(0, 0, 0, 0, 0, 0), Envelope("", ()), 0, NEVER, NO_COPY)
"""The copy of a tombstone."""


class Deliveries:
    """Deliveries that are not settled, tombstones included.

    Args:
        prefix: of the names of their pages in the store.
        pages: how many each page holds, as of the last `save`.

    Attributes:
        unacked: how many they are.
        limiter: the channel's, if it counts them.
    """

    __slots__ = ("_loaded", "_pages", "_prefix", "_store", "limiter", "unacked")

    def __init__(self, store: StateStore, prefix: str, pages: Iterable[tuple[int, int]]) -> None:
        self.limiter: Limiter | None = None
        self._store = store
        self._prefix = prefix
        self._pages: dict[int, int] = dict(pages)
        self.unacked = sum(self._pages.values())
        self._loaded: dict[int, dict[int, Delivery]] = {}

    def __iter__(self) -> Iterator[Delivery]:
        """Yield them all, also tombstones, in the order of their numbers."""
        for page_number in self._pages:
            yield from self._page(page_number).values()

    def add(self, delivery: Delivery) -> None:
        """Keep an unacked delivery; numbers only grow."""
        page_number = delivery.number >> PAGE_BITS
        page = self._loaded.get(page_number)
        if page is None:
            page = self._page(page_number)
        page[delivery.number] = delivery
        self.unacked += 1

    def take(self, number: int) -> Delivery | None:
        """Remove and return a delivery or tombstone; None if it is not here (any more)."""
        page_number = number >> PAGE_BITS
        page = self._loaded.get(page_number)
        if page is None:
            if page_number not in self._pages:
                return None
            page = self._page(page_number)
        delivery = page.pop(number, None)
        if delivery is not None:
            self.unacked -= 1
            if self.limiter is not None:
                self.limiter.settled += 1
            if not page:
                self._delete_page(page_number)
        return delivery

    def find(self, number: int) -> Delivery | None:
        """A delivery or tombstone, without removing it; None if it is not here (any more)."""
        if number >> PAGE_BITS not in self._pages:
            return None
        return self._page(number >> PAGE_BITS).get(number)

    def take_run(self, first: int, after: int) -> list[Delivery]:
        """Remove and return deliveries of one queue from a number on, up to a gap or a tombstone.

        Args:
            after: the number behind the last one.
        """
        found: list[Delivery] = []
        number = first
        while number < after and number >> PAGE_BITS in self._pages:
            page = self._page(number >> PAGE_BITS)
            start = number
            while number < after and (delivery := page.get(number)) is not None:
                queue_number = delivery.queue_number
                if queue_number == NO_QUEUE or (found and queue_number != found[0].queue_number):
                    after = number
                    break
                found.append(delivery)
                del page[number]
                number += 1
            self.unacked -= number - start
            if not page:
                self._delete_page(start >> PAGE_BITS)
            if number == start or number & (PAGE_SIZE - 1):
                break
        return found

    def take_up_to(self, tag: int) -> list[Delivery]:
        """Remove and return the deliveries with a tag up to this one, in order."""
        found: list[Delivery] = []
        before = self.unacked
        while self._pages:
            page_number = next(iter(self._pages))
            page = self._page(page_number)
            taken = list(takewhile(lambda delivery: delivery.tag <= tag, page.values()))
            found += taken
            self.unacked -= len(taken)
            if len(taken) < len(page):
                for delivery in taken:
                    del page[delivery.number]
                break
            self._delete_page(page_number)
        if self.limiter is not None:
            self.limiter.settled += before - self.unacked
        return found

    def take_of_queue(self, queue_number: int) -> Iterator[Delivery]:
        """Replace the deliveries of a queue that is being deleted by tombstones; yield them."""
        for page_number in sorted(self._pages):
            page = self._page(page_number)
            for number, delivery in page.items():
                if delivery.queue_number == queue_number:
                    page[number] = Delivery(
                        delivery.tag, number, NO_QUEUE, delivery.at_ms, _NOTHING
                    )
                    yield delivery

    def lowest_number(self) -> int:
        """A lower bound of the delivery numbers; NEVER if there are no deliveries."""
        if not self._pages:
            return NEVER
        page_number = min(self._pages)
        page = self._loaded.get(page_number)
        return next(iter(page)) if page else page_number << PAGE_BITS

    def save(self) -> list[tuple[int, int]]:
        """Write the loaded pages; return how many deliveries each page has. Do not use it then."""
        for page_number, page in self._loaded.items():
            self._pages[page_number] = len(page)
            self._store.write(f"{self._prefix}/{page_number}", DELIVERIES.encode(page.values()))
        return list(self._pages.items())

    def _page(self, page_number: int) -> dict[int, Delivery]:
        page = self._loaded.get(page_number)
        if page is None:
            page = {}
            if self._pages.setdefault(page_number, 0):
                data = self._store.read(f"{self._prefix}/{page_number}")
                assert data is not None, f"page {self._prefix}/{page_number} is missing"
                page = {delivery.number: delivery for delivery in DELIVERIES.decode(data)}
            self._loaded[page_number] = page
        return page

    def _delete_page(self, page_number: int) -> None:
        del self._pages[page_number]
        del self._loaded[page_number]
        self._store.delete(f"{self._prefix}/{page_number}")
