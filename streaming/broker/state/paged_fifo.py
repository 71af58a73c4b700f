"""First-in, first-out sequences in pages: a batch costs the same however much is resident.

A `Fifo` keeps only its two ends in memory. Between them lie pages: immutable blobs in a
`StateStore`, oldest first.

    front (a deque) <- pages[0], pages[1], ...  <- back (a deque)

Rule 1: a page is written once and never changed; the front remembers how many copies were taken
        from its page.
Rule 2: `front` may be empty while pages or `back` are not: `fill` loads the next page.
Rule 3: without pages and without a page-backed front, `front` and `back` are the same deque.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from streaming.broker.state.pages import COPIES, PageCodec
from streaming.broker.state.schema import FifoRecord, PageRef
from streaming.broker.state.store import StateStore

T = TypeVar("T")

PAGE_COPIES = 1024
"""Copies in a full page: about 40 kB, one state read of well under a millisecond."""

MIN_PAGE_COPIES = 256
"""When the batch ends, a remainder of at least this many copies becomes a page of its own."""


class Fifo(Generic[T]):
    """Copies (or records that hold one), oldest first: append at the back, take at the front.

    The hot paths use `front` and `back` directly: `back.append(item)`, then `spill` once `back` has
    `spill_copies`; `front.popleft()` after `fill`. Everything else goes through the methods.

    Attributes:
        store: where the pages are; a fifo without pages may get that of another batch.
    """

    __slots__ = (
        "_codec",
        "_page",
        "_prefix",
        "back",
        "front",
        "next_page",
        "pages",
        "spill_copies",
        "store",
    )

    def __init__(
        self,
        store: StateStore,
        prefix: str,
        record: FifoRecord | None = None,
        codec: PageCodec = COPIES,
    ) -> None:
        self.store = store
        self._prefix = prefix
        self._codec = codec
        self.spill_copies = 2 * PAGE_COPIES
        self._page: PageRef | None = None  # the page whose remainder is `front`
        self.back: deque[T] = deque()
        self.front: deque[T] = self.back
        self.pages: deque[PageRef] = deque()
        self.next_page = 0
        if record is not None:
            self.next_page = record.next_page
            if record.back is not None:
                self.back.extend(self._codec.decode(record.back))
            self.pages.extend(record.pages)
            if record.front is not None:
                self.front = deque(self._codec.decode(record.front))
            elif self.pages:
                self.front = deque()

    def __bool__(self) -> bool:
        return bool(self.front or self.pages or self.back)

    def __len__(self) -> int:
        ends = len(self.front) + (0 if self.front is self.back else len(self.back))
        return ends + sum(page.copies - page.taken for page in self.pages)

    def append(self, item: T) -> None:
        """Add at the back."""
        back = self.back
        back.append(item)
        if len(back) >= self.spill_copies:
            self.spill()

    def spill(self) -> None:
        """Turn the older half of a long back, two pages' worth, into a page."""
        back = self.back
        if self.front is back:
            self.front = deque(islice(back, PAGE_COPIES))
            self.back = deque(islice(back, PAGE_COPIES, None))
            return
        chunk = [back.popleft() for _ in range(PAGE_COPIES)]
        self.pages.append(self._write(chunk))

    def fill(self) -> deque[T]:
        """The front, not empty unless the fifo is."""
        front = self.front
        if front:
            return front
        self._drop_page()
        if self.pages:
            page = self.pages.popleft()
            data = self.store.read(self._key(page.number))
            assert data is not None, f"page {self._key(page.number)} is missing from the state"
            copies = self._codec.decode(data)
            front = deque(islice(copies, page.taken, None))
            self._page = page
        else:
            front = self.back
        self.front = front
        return front

    def popleft(self) -> T:
        """Take the oldest; the fifo must not be empty."""
        return (self.front or self.fill()).popleft()

    def appendleft(self, item: T) -> None:
        """Add at the front."""
        front = self.fill()
        if self._page is not None:
            self._drop_page()
        front.appendleft(item)
        if len(front) >= self.spill_copies:
            if front is self.back:
                self.spill()
            else:
                chunk = [front.pop() for _ in range(PAGE_COPIES)]
                chunk.reverse()
                self.pages.appendleft(self._write(chunk))

    def extract(self, wanted: Callable[[T], bool]) -> T | None:
        """Take the oldest item that is wanted, from any place; None if there is none.

        Reads every page before it. The rest of its page is written as a new page.
        """
        item = _extract(self.front, wanted)
        if item is not None:
            self._drop_page()
            return item
        for index, page in enumerate(self.pages):
            rest: deque[T] = deque(self._rest_of(page))
            item = _extract(rest, wanted)
            if item is not None:
                self.store.delete(self._key(page.number))
                if rest:
                    self.pages[index] = self._write(list(rest))
                else:
                    del self.pages[index]
                return item
        return None if self.back is self.front else _extract(self.back, wanted)

    def matching(self, wanted: Callable[[T], bool]) -> Iterator[T]:
        """Yield the items that are wanted, oldest first, and leave them where they are."""
        yield from filter(wanted, self.front)
        for page in self.pages:
            yield from filter(wanted, self._rest_of(page))
        if self.back is not self.front:
            yield from filter(wanted, self.back)

    def remove(self, wanted: Callable[[T], bool], count: int) -> int:
        """Remove items that are wanted, up to `count`; return how many are left to find.

        Stops reading pages once all are found. The rest of a page is written as a new page.
        """
        left = _remove(self.front, wanted, count)
        if left < count:
            self._drop_page()
        pages = self.pages
        index = 0
        while left and index < len(pages):
            rest = deque(self._rest_of(pages[index]))
            before = left
            left = _remove(rest, wanted, left)
            if left == before:
                index += 1
                continue
            self.store.delete(self._key(pages[index].number))
            if rest:
                pages[index] = self._write(list(rest))
                index += 1
            else:
                del pages[index]
        if left and self.back is not self.front:
            left = _remove(self.back, wanted, left)
        return left

    def _rest_of(self, page: PageRef) -> Iterator[T]:
        """The items of a page that have not left it."""
        data = self.store.read(self._key(page.number))
        assert data is not None, f"page {self._key(page.number)} is missing from the state"
        return islice(self._codec.decode(data), page.taken, None)

    def take_all(self) -> Iterator[T]:
        """Take everything, oldest first, page by page."""
        while self.front or self.fill():
            yield self.front.popleft()
        self._drop_page()

    def save(self) -> FifoRecord | None:
        """Write pages and return the record. Do not use the fifo afterwards.

        Returns:
            None if it has no copies and never had a page; page numbers are not reused.
        """
        if not self:
            self._drop_page()
            return FifoRecord(self.next_page, [], None, None) if self.next_page else None
        front, back = self.front, self.back
        if front is not back and not front:
            self._drop_page()
        pages = list(self.pages)
        front_bytes = None
        if front is not back and front:
            if self._page is not None:
                taken = self._page.copies - len(front)
                pages.insert(0, PageRef(self._page.number, self._page.copies, taken))
            elif len(front) >= MIN_PAGE_COPIES:
                pages = [*self._write_chunks(front), *pages]
            else:
                front_bytes = self._codec.encode(front)
        back_bytes = None
        if back:
            if len(back) >= MIN_PAGE_COPIES:
                pages.extend(self._write_chunks(back))
            else:
                back_bytes = self._codec.encode(back)
        return FifoRecord(self.next_page, pages, front_bytes, back_bytes)

    def _key(self, number: int) -> str:
        return f"{self._prefix}/{number}"

    def _write(self, copies: list[T]) -> PageRef:
        page = PageRef(self.next_page, len(copies))
        self.store.write(self._key(page.number), self._codec.encode(copies))
        self.next_page += 1
        return page

    def _write_chunks(self, copies: deque[T]) -> list[PageRef]:
        everything = list(copies)
        return [
            self._write(everything[start : start + PAGE_COPIES])
            for start in range(0, len(everything), PAGE_COPIES)
        ]

    def _drop_page(self) -> None:
        """Delete the page behind the front: its copies all left, or are written again elsewhere."""
        if self._page is not None:
            self.store.delete(self._key(self._page.number))
            self._page = None


def _extract(items: deque[T], wanted: Callable[[T], bool]) -> T | None:
    """Take the first item that is wanted."""
    for index, item in enumerate(items):
        if wanted(item):
            del items[index]
            return item
    return None


def _remove(items: deque[T], wanted: Callable[[T], bool], count: int) -> int:
    """Remove the first `count` items that are wanted; return how many were not there."""
    kept = []
    for item in items:
        if count and wanted(item):
            count -= 1
        else:
            kept.append(item)
    if len(kept) < len(items):
        items.clear()
        items.extend(kept)
    return count
