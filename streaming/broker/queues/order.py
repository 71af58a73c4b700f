"""In which order a queue hands its ready copies out: three orders behind one shape.

    ClassicOrder    by arrival; a returned copy goes back to its place (R-SET-2)
    PriorityOrder   the highest priority first, each like a classic queue (R-PRI-1..3)
    QuorumOrder     returned copies first, in order of return (R-SET-7), then by arrival, on two
                    priority levels served two to one (R-PRI-7)

Counting is the queue's business; an order only knows what comes next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streaming.broker.message import Copy
from streaming.broker.queues.requeued import Returned
from streaming.broker.state.paged_fifo import Fifo, StateStore
from streaming.broker.state.schema import LevelRecord

RETURNED_POSITIONS = -(1 << 40)
"""Positions of copies returned to a quorum queue count up from here: before every other."""

HIGH_PRIORITY = 5
"""From this priority on a quorum queue counts a message as high (R-PRI-7)."""

HIGHS_TO_ONE_NORMAL = 2


class Order(Protocol):
    """What comes next."""

    def push(self, copy: Copy) -> None:
        """Add a copy that has just arrived."""

    def put_back(self, copy: Copy) -> None:
        """Add a copy that had been handed out; may renumber `copy.position`."""

    def head(self) -> Copy:
        """The next copy; there must be one."""

    def pop(self) -> Copy:
        """Take the next copy; there must be one."""

    def take_all(self) -> Iterator[Copy]:
        """Take everything, in order."""

    def save(self) -> list[LevelRecord]:
        """Write pages and give the rest as records."""


class ClassicOrder:
    """By arrival, with a place kept for what comes back."""

    __slots__ = ("_prefix", "_store", "fifo", "returned")

    def __init__(self, store: StateStore, prefix: str, record: LevelRecord | None = None) -> None:
        self._store = store
        self._prefix = prefix
        self.fifo: Fifo[Copy] = Fifo(store, prefix, record.fifo if record else None)
        self.returned: Returned | None = None
        if record is not None and record.returned:
            self.returned = Returned(store, prefix + "r", record.returned)

    def __bool__(self) -> bool:
        return bool(self.returned or self.fifo)

    def push(self, copy: Copy) -> None:
        """See `Order`."""
        self.fifo.append(copy)

    def put_back(self, copy: Copy) -> None:
        """See `Order`."""
        if self.returned is None:
            self.returned = Returned(self._store, self._prefix + "r")
        self.returned.insert(copy)

    def head(self) -> Copy:
        """See `Order`."""
        if self.returned:
            return self.returned.head()
        return (self.fifo.front or self.fifo.fill())[0]

    def pop(self) -> Copy:
        """See `Order`."""
        if self.returned:
            return self.returned.pop()
        return (self.fifo.front or self.fifo.fill()).popleft()

    def take_all(self) -> Iterator[Copy]:
        """See `Order`."""
        if self.returned is not None:
            yield from self.returned.take_all()
        yield from self.fifo.take_all()

    def save_level(self, level: int) -> LevelRecord | None:
        """The record of this order as one level of a queue, None if empty."""
        fifo = self.fifo.save()
        returned = self.returned.save() if self.returned else None
        if fifo is None and not returned:
            return None
        return LevelRecord(level, fifo, returned)

    def save(self) -> list[LevelRecord]:
        """See `Order`."""
        record = self.save_level(0)
        return [] if record is None else [record]


class PriorityOrder:
    """One `ClassicOrder` a priority; `_filled` has bit n set when level n is not empty."""

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
            self._levels[record.level] = ClassicOrder(store, f"{prefix}p{record.level}", record)
            self._filled |= 1 << record.level

    def _level(self, copy: Copy) -> ClassicOrder:
        priority = min(copy.envelope.priority, self.top)
        order = self._levels.get(priority)
        if order is None:
            order = self._levels[priority] = ClassicOrder(self._store, f"{self._prefix}p{priority}")
        self._filled |= 1 << priority
        return order

    def push(self, copy: Copy) -> None:
        """See `Order`."""
        self._level(copy).push(copy)

    def put_back(self, copy: Copy) -> None:
        """See `Order`."""
        self._level(copy).put_back(copy)

    def head(self) -> Copy:
        """See `Order`."""
        return self._levels[self._filled.bit_length() - 1].head()

    def pop(self) -> Copy:
        """See `Order`."""
        priority = self._filled.bit_length() - 1
        order = self._levels[priority]
        copy = order.pop()
        if not order:
            self._filled ^= 1 << priority
        return copy

    def take_all(self) -> Iterator[Copy]:
        """See `Order`."""
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority].take_all()
        self._filled = 0

    def save(self) -> list[LevelRecord]:
        """See `Order`."""
        records = (order.save_level(level) for level, order in sorted(self._levels.items()))
        return [record for record in records if record is not None]


_RETURNED, _NORMAL, _HIGH = 0, 1, 2


class QuorumOrder:
    """Returned first, then high and normal two to one; but no normal before an older high.

    Attributes:
        taken: the counter of the two-to-one service; kept with the queue.
        next_return: the position the next returned copy gets.
    """

    __slots__ = ("_fifos", "_two_levels", "next_return", "taken")

    def __init__(
        self,
        store: StateStore,
        prefix: str,
        records: list[LevelRecord],
        *,
        two_levels: bool,
        taken: int,
        next_return: int,
    ) -> None:
        at_rest = {record.level: record.fifo for record in records}
        self._fifos: tuple[Fifo[Copy], ...] = tuple(
            Fifo(store, f"{prefix}{name}", at_rest.get(level))
            for level, name in ((_RETURNED, "r"), (_NORMAL, "n"), (_HIGH, "h"))
        )
        self._two_levels = two_levels
        self.taken = taken
        self.next_return = next_return

    def push(self, copy: Copy) -> None:
        """See `Order`."""
        high = self._two_levels and copy.envelope.priority >= HIGH_PRIORITY
        self._fifos[_HIGH if high else _NORMAL].append(copy)

    def put_back(self, copy: Copy) -> None:
        """See `Order`."""
        copy.position = self.next_return
        self.next_return += 1
        self._fifos[_RETURNED].append(copy)

    def _next(self) -> Fifo[Copy]:
        returned, normal, high = self._fifos
        if returned:
            return returned
        if not high:
            return normal
        if not normal or self.taken < HIGHS_TO_ONE_NORMAL:
            return high
        return high if high.fill()[0].position < normal.fill()[0].position else normal

    def head(self) -> Copy:
        """See `Order`."""
        return self._next().fill()[0]

    def pop(self) -> Copy:
        """See `Order`. Every take of a copy that was not returned moves the two-to-one counter."""
        fifo = self._next()
        if fifo is not self._fifos[_RETURNED]:
            self.taken = 0 if self.taken >= HIGHS_TO_ONE_NORMAL else self.taken + 1
        return fifo.popleft()

    def take_all(self) -> Iterator[Copy]:
        """See `Order`. Returned, then high, then normal copies; the counter starts anew."""
        self.taken = 0
        returned, normal, high = self._fifos
        yield from returned.take_all()
        yield from high.take_all()
        yield from normal.take_all()

    def save(self) -> list[LevelRecord]:
        """See `Order`."""
        records = ((level, fifo.save()) for level, fifo in enumerate(self._fifos))
        return [LevelRecord(level, fifo) for level, fifo in records if fifo is not None]
