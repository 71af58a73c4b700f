"""Read bodies from `messages`.

    (file, row) --> the file exists --> its row group --> the same message? --> body
                |                                           no: fail, naming both
                +-> it was compacted --> (topic, partition, offset) --> body
                                             not found, or erased: fail, naming it

A place was recorded when the message arrived. Every lookup verifies the message's key, which is
read with the body.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from streaming.ledger.errors import BodyMismatchError, BodyMissingError
from streaming.ledger.read.message_search import KEY, MessageSearch, key_name, keys_of
from streaming.ledger.read.table_files import ActiveFiles, Ints, RowGroups
from streaming.ledger.schema.schemas import MESSAGES
from streaming.storage.location import Location

CACHE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Places:
    """Messages to look up: the expected place and the key of each. One entry per message.

    Attributes:
        files: distinct paths of data files.
        file_codes: index into `files`.
        rows: row number in the file, from 0.
    """

    files: Sequence[str]
    file_codes: Any
    rows: Any
    topic_numbers: Any
    partitions: Any
    offsets: Any

    def __len__(self) -> int:
        return len(self.rows)


class BodyReader:
    """Reads bodies and other columns of `messages` for one task. Close it at the end.

    Args:
        cache_bytes: memory limit for decoded row groups.
    """

    def __init__(
        self, root: Location, columns: Sequence[str] = ("body",), cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._place = root / "messages"
        self._columns = list(columns)
        stored = list(dict.fromkeys((*columns, *KEY)))
        self._groups = RowGroups(self._place.storage(), stored, cache_bytes)
        self._search = MessageSearch(self._place, self._groups)

    def read(self, places: Places) -> pa.Table:
        """Look messages up.

        Args:
            places: in any order; fastest if sorted by file and row. Together under 2 GiB.

        Returns:
            The requested columns; row i belongs to place i.

        Raises:
            BodyMismatchError: a place holds another message.
            BodyMissingError: the table does not have a message, or no longer has its body.
        """
        wanted = _Wanted(places)
        pieces: list[pa.Table] = []
        positions: list[Ints] = []
        gone: list[Ints] = []
        for code, part in wanted.by_file():
            path = places.files[code]
            if self._groups.file(path) is None:
                gone.append(part)
                continue
            for positions_there, piece in self._read_file(path, wanted, part):
                positions.append(positions_there)
                pieces.append(piece)
        if gone:
            missing = np.concatenate(gone)
            for found, piece in self._search.find(wanted.keys[missing]):
                positions.append(missing[found])
                pieces.append(piece)
        found = self._in_order(pieces, positions, len(places))
        if "body" in self._columns and found["body"].null_count:
            self._refuse_erased(found, wanted)
        return found

    def look_in(self, files: ActiveFiles, *, only: bool = False) -> None:
        """Let searches by key begin with these files.

        Args:
            only: whether they end with them; else they go on with the current files.
        """
        self._search.files = files
        self._search.is_fixed = only

    def group_starts(self, path: str) -> list[int]:
        """The first row of each row group of a file, then its rows; empty if it is gone."""
        opened = self._groups.file(path)
        return [] if opened is None else opened.starts.tolist()

    def group(self, path: str, number: int) -> pa.Table | None:
        """One row group of a file, the requested columns and the key; None if the file is gone."""
        return None if self._groups.file(path) is None else self._groups.read(path, number)

    def forget(self) -> None:
        """Release the memory of what was read; a few files stay open."""
        self._groups.forget()

    def close(self) -> None:
        """Release files and memory."""
        self._groups.close()

    def _read_file(
        self, path: str, wanted: "_Wanted", part: Ints
    ) -> Iterator[tuple[Ints, pa.Table]]:
        opened = self._groups.file(path)
        assert opened is not None, "just opened"
        rows = wanted.rows[part]
        if rows[0] < 0 or rows[-1] >= opened.starts[-1]:
            outside = rows[-1] if rows[0] >= 0 else rows[0]
            raise BodyMismatchError(
                f"{self._place.url}/{path} has {opened.starts[-1]} rows, but the state expects a "
                f"message in row {outside}; the tables and the checkpoint do not belong together: "
                "use those of the same job"
            )
        groups = np.searchsorted(opened.starts, rows, side="right") - 1
        cuts = np.flatnonzero(np.diff(groups)) + 1
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            group = int(groups[start])
            indices = rows[start:end] - opened.starts[group]
            piece = _rows_of(self._groups.read(path, group), indices)
            self._verify(path, piece, rows[start:end], wanted.keys[part[start:end]])
            yield part[start:end], piece

    def _verify(self, path: str, piece: pa.Table, rows: Ints, keys: Ints) -> None:
        found = keys_of(piece)
        wrong = np.flatnonzero((found != keys).any(axis=1))
        if len(wrong):
            first = wrong[0]
            raise BodyMismatchError(
                f"{self._place.url}/{path}, row {rows[first]}: the state expects message "
                f"{key_name(keys[first])}, the file holds {key_name(found[first])}; the tables and "
                "the checkpoint do not belong together, or the file was changed: use those of the "
                "same job, or restore the file"
            )

    def _refuse_erased(self, found: pa.Table, wanted: "_Wanted") -> None:
        """Refuse to read nothing in place of a body that was erased; an empty body is not null."""
        erased = np.flatnonzero(found["body"].is_null().to_numpy())
        raise BodyMissingError(
            f"{self._place.url}: the data of {len(erased)} messages that are still needed was "
            f"erased, first of {key_name(wanted.keys[erased[0]])}: restore their rows in this table"
        )

    def _in_order(self, pieces: list[pa.Table], positions: list[Ints], count: int) -> pa.Table:
        if not pieces:
            fields = [MESSAGES.field(name) for name in self._columns]
            return pa.schema(fields).remove_metadata().empty_table()
        table = pa.concat_tables([piece.select(self._columns) for piece in pieces])
        position = np.concatenate(positions)
        if np.array_equal(position, np.arange(count)):
            return table
        order = np.empty(count, np.int64)
        order[position] = np.arange(count)
        return table.take(pa.array(order))


class _Wanted:
    """Places as arrays, and the order in which to visit them."""

    def __init__(self, places: Places) -> None:
        self.rows: Ints = np.asarray(places.rows, np.int64)
        key = (places.topic_numbers, places.partitions, places.offsets)
        self.keys: Ints = np.column_stack([np.asarray(part, np.int64) for part in key])
        self._codes: Ints = np.asarray(places.file_codes, np.int64)

    def by_file(self) -> Iterator[tuple[int, Ints]]:
        """The code of each file, with the positions of its places in row order."""
        if not len(self._codes):
            return
        order = np.lexsort((self.rows, self._codes))
        codes = self._codes[order]
        cuts = np.flatnonzero(np.diff(codes)) + 1
        for part in np.split(order, cuts):
            yield int(self._codes[part[0]]), part


def _rows_of(table: pa.Table, indices: Ints) -> pa.Table:
    first, last = int(indices[0]), int(indices[-1])
    if last - first + 1 == len(indices) and bool((np.diff(indices) == 1).all()):
        return table.slice(first, len(indices))
    return table.take(pa.array(indices))
