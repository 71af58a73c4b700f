"""Records on their way to Kafka: one burst at a time, and all others gather for the next one.

With idempotence, librdkafka was seen to send a request to a partition only when the one before was
answered. Its thread polls without a pause while records wait for that, and takes the processor from
Kafka, for which it waits.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Protocol

from streaming.sequencer.records import Record


class Append(Protocol):
    """Appends records to the log, in order; returns how many the producer took."""

    def __call__(self, records: Collection[Record]) -> int:
        """Append them; no others follow now."""


class Bursts:
    """The records of one writer that are not sent yet, and the burst that is not acknowledged."""

    def __init__(self, append: Append) -> None:
        self._append = append
        self._unsent: deque[Record] = deque()
        self._number = 0  # of the newest record that was appended
        self._end: int | None = None  # number of the last record of the burst on its way

    def __len__(self) -> int:
        """How many records are not sent yet."""
        return len(self._unsent)

    def begin(self, number: int) -> None:
        """Begin behind the record with this number, which Kafka has."""
        self._number = number
        self._end = None

    def add(self, records: Sequence[Record]) -> None:
        """Let records wait for `send`."""
        self._unsent.extend(records)

    def clear(self) -> None:
        """Send nothing more."""
        self._unsent.clear()

    def acknowledged(self, number: int) -> None:
        """Note that Kafka has all records up to this number."""
        if self._end is not None and self._end <= number:
            self._end = None

    def send(self) -> None:
        """Append what waits, as one burst, unless one is on its way to Kafka."""
        unsent = self._unsent
        if not unsent or self._end is not None:
            return
        taken = self._append(unsent)
        self._number += taken
        if taken == len(unsent):
            unsent.clear()
            self._end = self._number
            return
        for _ in range(taken):
            unsent.popleft()
