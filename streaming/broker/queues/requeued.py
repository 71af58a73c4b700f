"""Copies that came back to a classic queue, in order of their original position (R-SET-2).

Whatever came back was once the head, so it stands before everything that never left; but copies may
come back in any order. They are kept as runs, each a `Fifo` of increasing positions: a copy extends
a run at either end where it fits, and starts one of its own where it fits none. The oldest of the
runs' heads is the head. Coming back in order or in reverse order, the usual ways, makes one run.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from streaming.broker.state.paged_fifo import Fifo, StateStore
from streaming.broker.state.schema import FifoRecord, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.broker.message import Copy


class _Run:
    __slots__ = ("fifo", "first", "last", "number", "record")

    def __init__(
        self, number: int, first: int, last: int, fifo: Fifo[Copy] | None, record: FifoRecord | None
    ) -> None:
        self.number = number
        self.first = first
        self.last = last
        self.fifo = fifo
        self.record = record


class Returned:
    """A set of copies from which the one of lowest position is taken."""

    __slots__ = ("_heads", "_next_run", "_prefix", "_runs", "_store")

    def __init__(
        self, store: StateStore, prefix: str, records: list[RunRecord] | None = None
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._runs: dict[int, _Run] = {}
        self._heads: list[tuple[int, int]] = []  # (first position, run); stale ones are skipped
        self._next_run = 0
        for record in records or ():
            run = _Run(record.number, record.first, record.last, None, record.fifo)
            self._runs[run.number] = run
            self._heads.append((run.first, run.number))
            self._next_run = max(self._next_run, run.number + 1)
        heapify(self._heads)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def insert(self, copy: Copy) -> None:
        """Put a copy in its place by position."""
        position = copy.position
        best: _Run | None = None
        for run in self._runs.values():
            if run.last < position and (best is None or run.last > best.last):
                best = run
        if best is not None:
            self._fifo(best).append(copy)
            best.last = position
            return
        for run in self._runs.values():
            if position < run.first and (best is None or run.first < best.first):
                best = run
        if best is None:
            best = _Run(
                self._next_run,
                position,
                position,
                Fifo(self._store, self._key(self._next_run)),
                None,
            )
            self._next_run += 1
            self._runs[best.number] = best
        self._fifo(best).appendleft(copy)
        best.first = position
        heappush(self._heads, (position, best.number))

    def head(self) -> Copy:
        """The copy of lowest position; there must be one."""
        return self._fifo(self._head_run()).fill()[0]

    def pop(self) -> Copy:
        """Take the copy of lowest position."""
        run = self._head_run()
        fifo = self._fifo(run)
        copy = fifo.popleft()
        heappop(self._heads)
        front = fifo.fill()
        if front:
            run.first = front[0].position
            heappush(self._heads, (run.first, run.number))
        else:
            fifo.save()
            del self._runs[run.number]
        return copy

    def take_all(self) -> Iterator[Copy]:
        """Take everything in order."""
        while self._runs:
            yield self.pop()

    def save(self) -> list[RunRecord]:
        """Write pages and give the rest as records."""
        records = []
        for run in self._runs.values():
            record = run.record if run.fifo is None else run.fifo.save()
            assert record is not None
            records.append(RunRecord(run.number, run.first, run.last, record))
        return records

    def _head_run(self) -> _Run:
        heads = self._heads
        while True:
            first, number = heads[0]
            run = self._runs.get(number)
            if run is not None and run.first == first:
                return run
            heappop(heads)

    def _fifo(self, run: _Run) -> Fifo[Copy]:
        if run.fifo is None:
            run.fifo = Fifo(self._store, self._key(run.number), run.record)
            run.record = None
        return run.fifo

    def _key(self, number: int) -> str:
        return f"{self._prefix}.{number}"
