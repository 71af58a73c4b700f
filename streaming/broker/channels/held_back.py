"""The consumers of a channel that left their lines although their own prefetch has room (R-QOS-3).

The channel's limit held them back, or the channel was stopped. When it has room again, those of the
queue that has waited longest are served first. This costs as much as that queue has consumers here,
not as much as the channel has.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streaming.broker.channels.channel import Consumer

_MIN_CROWD: Final = 64


class HeldBack:
    """The consumers that a channel held back.

    Those that are back in line, or have ended, stay in the heap until they are met.
    """

    def __init__(self, consumers: Iterable[Consumer]) -> None:
        self._order: list[tuple[int, int, Consumer]] = []  # a heap: when, and who left
        self._of_queue: dict[int, dict[Consumer, int]] = {}
        self._crowded = _MIN_CROWD
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: Consumer) -> None:
        """Note a consumer that has left its line, or that has room of its own again."""
        if not _is_held(consumer):
            return
        group = self._of_queue.setdefault(consumer.queue_number, {})
        if group.get(consumer) == consumer.left_line:
            return
        group[consumer] = consumer.left_line
        heappush(self._order, (consumer.left_line, consumer.number, consumer))
        if len(self._order) > self._crowded:
            self._drop_stale()

    def _drop_stale(self) -> None:
        counting = []
        for entry in self._order:
            if self._counts(entry):
                counting.append(entry)
            else:
                self._forget(entry)
        heapify(counting)
        self._order = counting
        self._crowded = 2 * len(counting) + _MIN_CROWD

    def next(self) -> list[Consumer]:
        """Remove and return the consumers of the queue that waited longest, in that order."""
        order = self._order
        while order:
            entry = heappop(order)
            if self._counts(entry):
                group = self._of_queue.pop(entry[2].queue_number)
                held = [one for one, left in group.items() if self._is_at(one, left)]
                return sorted(held, key=lambda one: (one.left_line, one.number))
            self._forget(entry)
        return []

    def _forget(self, entry: tuple[int, int, Consumer]) -> None:
        left_line, _number, consumer = entry
        group = self._of_queue.get(consumer.queue_number, {})
        if group.get(consumer) == left_line:
            del group[consumer]

    def _counts(self, entry: tuple[int, int, Consumer]) -> bool:
        left_line, _number, consumer = entry
        group = self._of_queue.get(consumer.queue_number, {})
        return group.get(consumer) == left_line and self._is_at(consumer, left_line)

    @staticmethod
    def _is_at(consumer: Consumer, left_line: int) -> bool:
        return consumer.left_line == left_line and _is_held(consumer)


def _is_held(consumer: Consumer) -> bool:
    return consumer.active and not consumer.in_line and consumer.has_own_room
