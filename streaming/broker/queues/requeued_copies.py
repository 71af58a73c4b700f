"""Copies requeued to a classic queue, in order of their original position (R-SET-2).

A requeued copy was once the head, so it precedes every copy that never left, unless it was
extracted by its identity. Copies may come back in any order. They are kept as runs, each a `Fifo`
of increasing positions. A copy extends a run at one end if it fits there, otherwise it starts a run
of its own. The oldest of the runs' heads is the next copy. Requeueing in order or in reverse order,
the usual ways, makes one run.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from streaming.broker.message import Copy
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.schema import FifoRecord, RunRecord
from streaming.broker.state.store import StateStore


class _Run:
    """A run; `record` until its first use in a batch, then `fifo`."""

    __slots__ = ("fifo", "first", "last", "number", "record")

    def __init__(
        self, number: int, first: int, last: int, fifo: Fifo[Copy] | None, record: FifoRecord | None
    ) -> None:
        self.number = number
        self.first = first
        self.last = last
        self.fifo = fifo
        self.record = record


class RequeuedCopies:
    """A set of copies from which the one of lowest position is taken."""

    __slots__ = ("_firsts", "_lasts", "_prefix", "_runs", "_store")

    def __init__(
        self, store: StateStore, prefix: str, records: list[RunRecord] | None = None
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._runs: dict[int, _Run] = {}
        for record in records or ():
            run = _Run(record.number, record.first, record.last, None, record.fifo)
            self._runs[run.number] = run
        self._firsts = sorted((run.first, run.number) for run in self._runs.values())
        self._lasts = sorted((run.last, run.number) for run in self._runs.values())

    def __bool__(self) -> bool:
        return bool(self._runs)

    def insert(self, copy: Copy, run_number: int) -> None:
        """Add a copy.

        Args:
            run_number: the number of the run that it may start; never used before.
        """
        position = copy.position
        index = bisect_left(self._lasts, (position, 0)) - 1
        if index >= 0:  # append to the run that ends closest before the position
            run = self._runs[self._lasts.pop(index)[1]]
            self._fifo(run).append(copy)
            run.last = position
            insort(self._lasts, (position, run.number))
            return
        index = bisect_left(self._firsts, (position, 0))
        if index < len(self._firsts):  # prepend to the run that begins closest after it
            run = self._runs[self._firsts.pop(index)[1]]
            run.first = position
        else:
            run = _Run(run_number, position, position, self._new_fifo(run_number, None), None)
            self._runs[run_number] = run
            insort(self._lasts, (position, run_number))
        self._fifo(run).appendleft(copy)
        insort(self._firsts, (position, run.number))

    def head(self) -> Copy:
        """The copy of lowest position; there must be one."""
        return self._fifo(self._runs[self._firsts[0][1]]).fill()[0]

    def pop(self) -> Copy:
        """Remove the copy of lowest position."""
        firsts = self._firsts
        run = self._runs[firsts[0][1]]
        fifo = self._fifo(run)
        copy = fifo.popleft()
        front = fifo.fill()
        if not front:
            self._remove(run, 0)
            return copy
        run.first = front[0].position
        entry = (run.first, run.number)
        if len(firsts) == 1 or entry < firsts[1]:
            firsts[0] = entry
        else:
            del firsts[0]
            insort(firsts, entry)
        return copy

    def extract(self, wanted: Callable[[Copy], bool]) -> Copy | None:
        """Take a copy that is wanted, from the run that begins first; None if there is none."""
        for index, (_, number) in enumerate(self._firsts):
            run = self._runs[number]
            fifo = self._fifo(run)
            copy = fifo.extract(wanted)
            if copy is None:
                continue
            front = fifo.fill()
            if not front:
                self._remove(run, index)
            elif front[0].position != run.first:
                del self._firsts[index]
                run.first = front[0].position
                insort(self._firsts, (run.first, number))
            return copy  # `last` may be too high now: then no later copy extends the run there
        return None

    def matching(self, wanted: Callable[[Copy], bool]) -> Iterator[Copy]:
        """Yield the copies that are wanted, run by run, and leave them where they are."""
        for _, number in self._firsts:
            yield from self._fifo(self._runs[number]).matching(wanted)

    def take_all(self) -> Iterator[Copy]:
        """Remove and yield everything in order."""
        while self._runs:
            yield self.pop()

    def save(self) -> list[RunRecord]:
        """Write pages and return the records."""
        records = []
        for run in self._runs.values():
            record = run.record if run.fifo is None else run.fifo.save()
            assert record is not None
            records.append(RunRecord(run.number, run.first, run.last, record))
        return records

    def _remove(self, run: _Run, index: int) -> None:
        """Remove an empty run, which is at this place in `_firsts`."""
        self._fifo(run).save()
        del self._runs[run.number]
        del self._firsts[index]
        del self._lasts[bisect_left(self._lasts, (run.last, run.number))]

    def _fifo(self, run: _Run) -> Fifo[Copy]:
        if run.fifo is None:
            run.fifo = self._new_fifo(run.number, run.record)
            run.record = None
        return run.fifo

    def _new_fifo(self, number: int, record: FifoRecord | None) -> Fifo[Copy]:
        return Fifo(self._store, f"{self._prefix}.{number}", record)
