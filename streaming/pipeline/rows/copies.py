"""Attributes of the copies and messages of events, as columns.

Most events are about a copy that entered its queue in the same batch, at row `copy_id - first_seq`.
So attributes are read once per copy, and once per message, in Python; NumPy does the rest. The
copies of a message's deaths lead back to the row of its publish:

    row   event      copy_id   source   root
      0   enqueued         7        0      0
      1   died             7        0      0
      2   enqueued         9        2      0     its parent is copy 7
"""

from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from streaming.broker.events import Events
from streaming.broker.message import NO_COPY

NONE = -1 << 62
"""The value of a row without a copy, or without that attribute."""


class CopyColumns:
    """The columns of one batch's events that come from copies and messages.

    Attributes:
        copy_id, parent_copy_id: NONE if there is none.
        topic_number, partition, offset, size: of the message.
        source: the row that enqueued the copy, or the row itself.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        copies = events.copies
        rows = len(copies)
        own = np.arange(rows)
        places = own
        if None in copies:
            places = np.flatnonzero([copy is not None for copy in copies])
        self._has_copy = np.zeros(rows, bool)
        self._has_copy[places] = True
        self.copy_id = self._read("copy_id", places)
        self.source = self._born_at(self.copy_id, own)
        self._read_rows = np.flatnonzero((self.source == own) & self._has_copy)
        parents = self.of_copies("parent_copy_id")
        parents[parents == NO_COPY] = NONE
        self.parent_copy_id = parents
        root = self._born_at(parents, self.source)
        while not np.array_equal(further := root[root], root):
            root = further
        self._heads = np.flatnonzero((root == own) & self._has_copy)
        self._root = root
        messages: list[Any] = [copies[row] for row in self._heads.tolist()]
        messages = [copy.message for copy in messages]
        self.topic_number = self._of_messages("topic_number", messages)
        self.partition = self._of_messages("partition", messages)
        self.offset = self._of_messages("offset", messages)
        self.size = self._of_messages("size", messages)

    def of_copies(self, name: str) -> Any:
        """Return a column of numbers that never change in the life of a copy."""
        return self._read(name, self._read_rows)[self.source]

    @cached_property
    def envelopes(self) -> tuple[list[Any], Any]:
        """The distinct envelopes, and the index of each row's; -1 for none."""
        copies: list[Any] = self._events.copies
        found = [copies[row].envelope for row in self._read_rows.tolist()]
        numbers = {one: code for code, one in enumerate(dict.fromkeys(found))}
        column = np.full(len(copies), -1, np.int32)
        column[self._read_rows] = np.fromiter(map(numbers.__getitem__, found), np.int32, len(found))
        return list(numbers), column[self.source]

    def at_the_end(self, name: str, rows: Any) -> Any:
        """Return a column of numbers as they are at the end of the batch, in some rows."""
        return self._read(name, rows)

    def _of_messages(self, name: str, messages: list[Any]) -> Any:
        column = np.full(len(self._root), NONE)
        column[self._heads] = np.fromiter(map(attrgetter(name), messages), np.int64, len(messages))
        column = column[self._root]
        for row, (message, _envelope) in self._events.messages.items():
            column[row] = getattr(message, name)
        return column

    def _read(self, name: str, rows: Any) -> Any:
        copies: list[Any] = self._events.copies
        column = np.full(len(copies), NONE)
        found = copies if len(rows) == len(copies) else [copies[row] for row in rows.tolist()]
        column[rows] = np.fromiter(map(attrgetter(name), found), np.int64, len(rows))
        return column

    def _born_at(self, ids: Any, otherwise: Any) -> Any:
        """Return the row that enqueued each copy, if it is in this batch."""
        births = ids - self._events.first_seq
        known = np.flatnonzero((births >= 0) & (births < len(ids)))
        known = known[self.copy_id[births[known]] == ids[known]]
        column = np.array(otherwise)
        column[known] = births[known]
        return column
