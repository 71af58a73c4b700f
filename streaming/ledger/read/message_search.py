"""Find messages by their key, after the file that they were written to was compacted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from streaming.ledger.errors import BodyMissingError
from streaming.ledger.read.table_files import ActiveFiles, Ints, OpenFile, RowGroups
from streaming.ledger.schema.table_setup import load_table
from streaming.storage.location import Location

KEY: Final = ("topic_number", "partition", "offset")
"""The columns of a message's key, in the order of this module's key arrays."""

_MAX_NAMED: Final = 5


def keys_of(table: pa.Table) -> Ints:
    """The keys of a table's rows, shape (rows, 3)."""
    return np.column_stack([table[name].to_numpy().astype(np.int64) for name in KEY])


def key_name(key: Ints) -> str:
    """A key for people."""
    return f"(topic number {key[0]}, partition {key[1]}, offset {key[2]})"


@dataclass(frozen=True)
class _Source:
    """The wanted messages of one Kafka partition: ascending offsets, and positions in `keys`."""

    topic_number: int
    partition: int
    offsets: Ints
    positions: Ints

    def between(self, least: int, greatest: int) -> bool:
        start, end = np.searchsorted(self.offsets, [least, greatest + 1])
        return bool(start < end)


class MessageSearch:
    """Finds messages in the current files of `messages`, by Delta's and Parquet's statistics.

    Args:
        groups: reads row groups with at least the columns of KEY.

    Attributes:
        files: those that are looked in first; then the table's current ones.
        is_fixed: whether only `files` count, and others only in place of those that are gone.
    """

    def __init__(self, place: Location, groups: RowGroups) -> None:
        self._place = place
        self._groups = groups
        self.files: ActiveFiles | None = None
        self.is_fixed = False
        self._gone = False  # whether a file was compacted and removed meanwhile

    def find(self, keys: Ints) -> Iterator[tuple[Ints, pa.Table]]:
        """Find messages.

        Args:
            keys: keys of the messages, shape (n, 3); they may repeat.

        Yields:
            Positions in `keys`, and a table with a row for each. Every position comes once.

        Raises:
            BodyMissingError: messages are in no file of the table.
        """
        distinct, asked = np.unique(keys, axis=0, return_inverse=True)
        asked = asked.reshape(-1)
        left = np.ones(len(distinct), np.bool_)
        self._gone = False
        for fresh in (False, True):
            files = self.files
            if fresh and self.is_fixed and not self._gone:
                break
            if fresh or files is None:
                files = ActiveFiles(load_table(self._place))
                self.files = self.files if self.is_fixed else files
            for found, piece in self._find_distinct(files, distinct, left):
                row_of = np.full(len(distinct), -1, np.int64)
                row_of[found] = np.arange(len(found))
                rows = row_of[asked]
                positions = np.flatnonzero(rows >= 0)
                yield positions, piece.take(pa.array(rows[positions]))
            if not left.any():
                return
        missing = distinct[left]
        named = ", ".join(key_name(key) for key in missing[:_MAX_NAMED])
        raise BodyMissingError(
            f"{self._place.url}: {len(missing)} messages that are still needed are missing: "
            f"{named}; rows were removed from this table: restore them"
        )

    def missing(self, keys: Ints, files: ActiveFiles) -> Any:
        """Which messages are in none of some files, one bool per key."""
        distinct, asked = np.unique(keys, axis=0, return_inverse=True)
        left = np.ones(len(distinct), np.bool_)
        for _found in self._find_distinct(files, distinct, left):
            pass
        return left[asked.reshape(-1)]

    def _find_distinct(
        self, files: ActiveFiles, keys: Ints, left: Any
    ) -> Iterator[tuple[Ints, pa.Table]]:
        """Yield positions in `keys` and their rows; clear `left` at each position found."""
        bounds = [(files.least(column), files.greatest(column)) for column in KEY]
        wanted = list(_sources(keys, left))
        for index, path in enumerate(files.paths):
            least, greatest = ([int(bound[side][index]) for bound in bounds] for side in (0, 1))
            sources = [
                source
                for source in wanted
                if least[0] <= source.topic_number <= greatest[0]
                and least[1] <= source.partition <= greatest[1]
                and source.between(least[2], greatest[2])
            ]
            if not sources:
                continue
            opened = self._groups.file(path)
            if opened is None:  # compacted meanwhile: a search in fresh files finds them
                self._gone = True
                continue
            for group in range(len(opened.starts) - 1):
                if any(_may_hold(opened, group, source) for source in sources):
                    yield from self._find_in_group(path, group, sources, left)
            wanted = list(_sources(keys, left))

    def _find_in_group(
        self, path: str, group: int, sources: list[_Source], left: Any
    ) -> Iterator[tuple[Ints, pa.Table]]:
        table = self._groups.read(path, group)
        keys = keys_of(table)
        for source in sources:
            rows = np.flatnonzero(
                (keys[:, 0] == source.topic_number) & (keys[:, 1] == source.partition)
            )
            offsets = keys[rows, 2]
            where = np.searchsorted(source.offsets, offsets)
            where[where == len(source.offsets)] = 0
            hit = source.offsets[where] == offsets
            positions = source.positions[where[hit]]
            new = left[positions]
            if new.any():
                left[positions] = False
                yield positions[new], table.take(pa.array(rows[hit][new]))


def _sources(keys: Ints, left: Any) -> Iterator[_Source]:
    """The messages not found yet, by Kafka partition."""
    positions = np.flatnonzero(left)
    order = positions[np.lexsort(keys[positions].T[::-1])]
    if not len(order):
        return
    cuts = np.flatnonzero((np.diff(keys[order, :2], axis=0) != 0).any(axis=1)) + 1
    for part in np.split(order, cuts):
        topic_number, partition, _ = (int(number) for number in keys[part[0]])
        yield _Source(topic_number, partition, keys[part, 2], part)


def _may_hold(opened: OpenFile, group: int, source: _Source) -> bool:
    return (
        opened.may_hold(group, "topic_number", source.topic_number, source.topic_number)
        and opened.may_hold(group, "partition", source.partition, source.partition)
        and opened.may_hold(group, "offset", int(source.offsets[0]), int(source.offsets[-1]))
    )
