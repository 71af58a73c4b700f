"""Records on their way to Kafka: few and large bursts, so that busy fronts send large batches.

Others gather until Kafka has acknowledged some. librdkafka's thread polls without a pause while
five requests are on their way and records wait behind them: it would take the processor from Kafka,
for which it waits.
"""

from collections import deque
from typing import Final, Protocol

from streaming.sequencer.records import Record

MAX_BURSTS: Final = 3
MANY_RECORDS: Final = 16
"""Bursts on their way, and records of them, that let others gather."""


class Append(Protocol):
    """Appends a record to the log; False if the producer takes none now."""

    def __call__(self, record: Record, *, is_last: bool) -> bool:
        """Append it; `is_last`: no other follows now."""


class Bursts:
    """The records of one writer that are not sent yet, and the bursts that are not acknowledged."""

    def __init__(self, append: Append) -> None:
        self._append = append
        self._unsent: deque[Record] = deque()
        self._ends: deque[int] = deque()  # numbers of the last records of those on their way
        self._number = self._taken = 0  # of the newest records: appended, acknowledged

    def __len__(self) -> int:
        """How many records are not sent yet."""
        return len(self._unsent)

    def begin(self, number: int) -> None:
        """Begin behind the record with this number, which Kafka has."""
        self._number = self._taken = number
        self._ends.clear()

    def add(self, record: Record) -> None:
        """Let a record wait for `send`."""
        self._unsent.append(record)

    def clear(self) -> None:
        """Send nothing more."""
        self._unsent.clear()

    def acknowledged(self, number: int) -> None:
        """Note that Kafka has all records up to this number."""
        self._taken = number
        while self._ends and self._ends[0] <= number:
            self._ends.popleft()

    def send(self) -> None:
        """Append what waits, as one burst, unless enough is on its way to Kafka."""
        unsent, bursts = self._unsent, len(self._ends)
        is_many = bursts and self._number - self._taken >= MANY_RECORDS
        if not unsent or is_many or bursts >= MAX_BURSTS:
            return
        while self._append(unsent[0], is_last=len(unsent) == 1):
            unsent.popleft()
            self._number += 1
            if not unsent:
                self._ends.append(self._number)
                return
