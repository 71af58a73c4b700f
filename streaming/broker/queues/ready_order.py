"""The order in which a queue hands out its ready copies: three orders with one interface.

    ClassicOrder    by arrival; a requeued copy returns to its place (R-SET-2)
    PriorityOrder   the highest priority first, each like a classic queue (R-PRI-1..3)
    QuorumOrder     requeued copies first, in order of return (R-SET-7), then by arrival, on two
                    priority levels served two to one (R-PRI-7)

The queue counts its copies; an order only knows which is next.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from streaming.broker.message import Copy
from streaming.broker.queues.requeued_copies import RequeuedCopies
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.schema import LevelRecord
from streaming.broker.state.store import StateStore

REQUEUED_POSITIONS = -(1 << 40)
"""Positions of copies requeued to a quorum queue count up from here: before all others."""

HIGH_PRIORITY = 5
"""The lowest priority that a quorum queue treats as high (R-PRI-7)."""

HIGHS_TO_ONE_NORMAL = 2


class Order(Protocol):
    """The ready copies of a queue."""

    def push(self, copy: Copy) -> None:
        """Add a copy that has just arrived."""

    def put_back(self, copy: Copy, run_number: int) -> None:
        """Add a copy that had been handed out; may change `copy.position`.

        Args:
            run_number: a number never used before in this queue.
        """

    def head(self) -> Copy:
        """The next copy; there must be one."""

    def pop(self) -> Copy:
        """Remove the next copy; there must be one."""

    def extract(self, wanted: Callable[[Copy], bool]) -> Copy | None:
        """Remove the first copy that is wanted, wherever it is; None if there is none."""

    def matching(self, wanted: Callable[[Copy], bool]) -> Iterator[Copy]:
        """Yield the copies that are wanted, and leave them where they are."""

    def remove(self, wanted: Callable[[Copy], bool], count: int) -> int:
        """Remove copies that are wanted, up to `count`; return how many are left to find."""

    def take_all(self) -> Iterator[Copy]:
        """Remove and yield everything, in order."""

    def save(self) -> list[LevelRecord]:
        """Write pages and return the records. Do not use the order afterwards."""


def classic_order(
    store: StateStore, queue_number: int, max_priority: int | None, levels: list[LevelRecord]
) -> Order:
    """The order of a classic queue with these ready copies."""
    prefix = f"p{queue_number}"
    if max_priority is not None:
        return PriorityOrder(store, prefix, max_priority, levels)
    return ClassicOrder(store, prefix, levels[0] if levels else None)


class ClassicOrder:
    """By arrival; requeued copies return to their places."""

    __slots__ = ("_prefix", "fifo", "requeued")

    def __init__(self, store: StateStore, prefix: str, record: LevelRecord | None = None) -> None:
        self._prefix = prefix
        self.fifo: Fifo[Copy] = Fifo(store, prefix, record.fifo if record else None)
        self.requeued: RequeuedCopies | None = None
        if record is not None and record.requeued:
            self.requeued = RequeuedCopies(store, prefix + "r", record.requeued)

    def __bool__(self) -> bool:
        return bool(self.requeued or self.fifo)

    def push(self, copy: Copy) -> None:
        """Add a copy that has just arrived."""
        self.fifo.append(copy)

    def put_back(self, copy: Copy, run_number: int) -> None:
        """Add a copy that had been handed out; may change `copy.position`."""
        if self.requeued is None:
            self.requeued = RequeuedCopies(self.fifo.store, self._prefix + "r")
        self.requeued.insert(copy, run_number)

    def head(self) -> Copy:
        """The next copy; there must be one."""
        if self.requeued and self._requeued_is_next(self.requeued):
            return self.requeued.head()
        return (self.fifo.front or self.fifo.fill())[0]

    def pop(self) -> Copy:
        """Remove the next copy; there must be one."""
        if self.requeued and self._requeued_is_next(self.requeued):
            return self.requeued.pop()
        return (self.fifo.front or self.fifo.fill()).popleft()

    def _requeued_is_next(self, requeued: RequeuedCopies) -> bool:
        """Whether the next copy was requeued; unless it had been extracted, it was."""
        front = self.fifo.front or self.fifo.fill()
        return not front or requeued.head().position < front[0].position

    def extract(self, wanted: Callable[[Copy], bool]) -> Copy | None:
        """Remove the first copy that is wanted, wherever it is; None if there is none."""
        copy = self.requeued.extract(wanted) if self.requeued else None
        return self.fifo.extract(wanted) if copy is None else copy

    def matching(self, wanted: Callable[[Copy], bool]) -> Iterator[Copy]:
        """Yield the copies that are wanted, and leave them where they are.

        Requeued copies come first.
        """
        if self.requeued is not None:
            yield from self.requeued.matching(wanted)
        yield from self.fifo.matching(wanted)

    def remove(self, wanted: Callable[[Copy], bool], count: int) -> int:
        """Remove copies that are wanted, up to `count`; return how many are left to find."""
        while count and self.requeued and self.requeued.extract(wanted) is not None:
            count -= 1
        return self.fifo.remove(wanted, count) if count else 0

    def take_all(self) -> Iterator[Copy]:
        """Remove and yield everything, in order."""
        while self.requeued:
            yield self.pop()
        yield from self.fifo.take_all()

    def save_level(self, level: int) -> LevelRecord | None:
        """Write pages and return the record of this level; None if there is nothing to keep."""
        fifo = self.fifo.save()
        requeued = self.requeued.save() if self.requeued else None
        if fifo is None and not requeued:
            return None
        return LevelRecord(level, fifo, requeued)

    def save(self) -> list[LevelRecord]:
        """Write pages and return the records. Do not use the order afterwards."""
        record = self.save_level(0)
        return [] if record is None else [record]


class PriorityOrder:
    """One `ClassicOrder` per priority; bit n of `_filled` says that level n is not empty."""

    __slots__ = ("_filled", "_levels", "_prefix", "_store", "top")

    def __init__(
        self, store: StateStore, prefix: str, top: int, records: list[LevelRecord]
    ) -> None:
        self._store = store
        self._prefix = prefix
        self.top = top
        self._levels: dict[int, ClassicOrder] = {}
        self._filled = 0
        for record in records:
            order = ClassicOrder(store, f"{prefix}p{record.level}", record)
            self._levels[record.level] = order
            if order:
                self._filled |= 1 << record.level

    def _level(self, copy: Copy) -> ClassicOrder:
        priority = min(copy.envelope.priority, self.top)
        order = self._levels.get(priority)
        if order is None:
            order = self._levels[priority] = ClassicOrder(self._store, f"{self._prefix}p{priority}")
        self._filled |= 1 << priority
        return order

    def push(self, copy: Copy) -> None:
        """Add a copy that has just arrived."""
        self._level(copy).push(copy)

    def put_back(self, copy: Copy, run_number: int) -> None:
        """Add a copy that had been handed out; may change `copy.position`."""
        self._level(copy).put_back(copy, run_number)

    def head(self) -> Copy:
        """The next copy; there must be one."""
        return self._levels[self._filled.bit_length() - 1].head()

    def pop(self) -> Copy:
        """Remove the next copy; there must be one."""
        priority = self._filled.bit_length() - 1
        order = self._levels[priority]
        copy = order.pop()
        if not order:
            self._filled ^= 1 << priority
        return copy

    def extract(self, wanted: Callable[[Copy], bool]) -> Copy | None:
        """Remove the first copy that is wanted, wherever it is; None if there is none."""
        for priority in sorted(self._levels, reverse=True):
            order = self._levels[priority]
            copy = order.extract(wanted)
            if copy is not None:
                if not order:
                    self._filled ^= 1 << priority
                return copy
        return None

    def matching(self, wanted: Callable[[Copy], bool]) -> Iterator[Copy]:
        """Yield the copies that are wanted, and leave them where they are."""
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority].matching(wanted)

    def remove(self, wanted: Callable[[Copy], bool], count: int) -> int:
        """Remove copies that are wanted, up to `count`; return how many are left to find."""
        for priority in sorted(self._levels, reverse=True):
            order = self._levels[priority]
            if order:
                count = order.remove(wanted, count)
                if not order:
                    self._filled ^= 1 << priority
        return count

    def take_all(self) -> Iterator[Copy]:
        """Remove and yield everything, in order."""
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority].take_all()
        self._filled = 0

    def save(self) -> list[LevelRecord]:
        """Write pages and return the records. Do not use the order afterwards."""
        records = (order.save_level(level) for level, order in sorted(self._levels.items()))
        return [record for record in records if record is not None]


_REQUEUED, _NORMAL, _HIGH = 0, 1, 2


class QuorumOrder:
    """Requeued first, then high and normal two to one; but no normal before an older high.

    Attributes:
        taken: the counter of the two-to-one service; stored with the queue.
        next_requeued: the position of the next requeued copy.
    """

    __slots__ = ("_fifos", "_two_levels", "next_requeued", "taken")

    def __init__(
        self,
        store: StateStore,
        queue_number: int,
        levels: list[LevelRecord],
        *,
        two_levels: bool,
        taken: int,
        next_requeued: int,
    ) -> None:
        at_rest = {record.level: record.fifo for record in levels}
        self._fifos: tuple[Fifo[Copy], ...] = tuple(
            Fifo(store, f"p{queue_number}{name}", at_rest.get(level))
            for level, name in ((_REQUEUED, "r"), (_NORMAL, "n"), (_HIGH, "h"))
        )
        self._two_levels = two_levels
        self.taken = taken
        self.next_requeued = next_requeued

    def push(self, copy: Copy) -> None:
        """Add a copy that has just arrived."""
        high = self._two_levels and copy.envelope.priority >= HIGH_PRIORITY
        self._fifos[_HIGH if high else _NORMAL].append(copy)

    def put_back(self, copy: Copy, run_number: int) -> None:  # noqa: ARG002 - classic queues'
        """Add a copy that had been handed out; may change `copy.position`."""
        copy.position = self.next_requeued
        self.next_requeued += 1
        self._fifos[_REQUEUED].append(copy)

    def _next(self) -> Fifo[Copy]:
        requeued, normal, high = self._fifos
        if requeued:
            return requeued
        if not high:
            return normal
        if not normal or self.taken < HIGHS_TO_ONE_NORMAL:
            return high
        return high if high.fill()[0].position < normal.fill()[0].position else normal

    def head(self) -> Copy:
        """The next copy; there must be one."""
        return self._next().fill()[0]

    def pop(self) -> Copy:
        """Remove the next copy; there must be one.

        Taking a copy that was not requeued moves the two-to-one counter.
        """
        fifo = self._next()
        if fifo is not self._fifos[_REQUEUED]:
            self.taken = 0 if self.taken >= HIGHS_TO_ONE_NORMAL else self.taken + 1
        return fifo.popleft()

    def extract(self, wanted: Callable[[Copy], bool]) -> Copy | None:
        """Remove the first copy that is wanted, wherever it is; None if there is none.

        The two-to-one counter stays as it is.
        """
        requeued, normal, high = self._fifos
        for fifo in (requeued, high, normal):
            copy = fifo.extract(wanted)
            if copy is not None:
                return copy
        return None

    def matching(self, wanted: Callable[[Copy], bool]) -> Iterator[Copy]:
        """Yield the copies that are wanted, and leave them where they are."""
        for fifo in self._fifos:
            yield from fifo.matching(wanted)

    def remove(self, wanted: Callable[[Copy], bool], count: int) -> int:
        """Remove copies that are wanted, up to `count`; return how many are left to find.

        The two-to-one counter stays as it is.
        """
        for fifo in self._fifos:
            count = fifo.remove(wanted, count)
        return count

    def take_all(self) -> Iterator[Copy]:
        """Remove and yield everything, in order.

        Requeued, then high, then normal copies; the counter starts again.
        """
        self.taken = 0
        requeued, normal, high = self._fifos
        yield from requeued.take_all()
        yield from high.take_all()
        yield from normal.take_all()

    def save(self) -> list[LevelRecord]:
        """Write pages and return the records. Do not use the order afterwards."""
        records = ((level, fifo.save()) for level, fifo in enumerate(self._fifos))
        return [LevelRecord(level, fifo) for level, fifo in records if fifo is not None]
