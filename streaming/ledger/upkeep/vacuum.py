"""Removing files that no table needs any more, and never one that somebody does.

A file is removed once it has not been part of its table for the whole of a grace period, and

    a batch wrote it     the table has that batch: files of a batch under way, or one that a crash
                         left to be replayed, belong to no version yet
    joining wrote it     it was replaced in turn, or the joining was given up
    another tool did     nobody has touched it for the time that Delta's own vacuum allows
    it is unfinished     nobody has written to it for a day

In `messages`, a file that may hold a message which is still in a queue is removed only once that
very message was found in another file of the table.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.ledger.read.message_search import KEY, keys_of
from streaming.ledger.read.row_group_cache import Ints
from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.storage import HIDDEN_END, Storage, StoredFile
from streaming.ledger.upkeep.compaction import JOINED_START
from streaming.ledger.write.data_file import DataFileName

_UNFINISHED_GRACE_MS: Final = 24 * 3_600_000
_FOREIGN_GRACE_MS: Final = 7 * 24 * 3_600_000
_ROWS_CHECKED_AT_ONCE: Final = 2_000_000

LowestResident = Mapping[tuple[int, int], int]
"""(topic number, partition) -> no message below this offset is in any queue."""


@dataclass(frozen=True)
class Vacuumed:
    """What one sweep did.

    Attributes:
        removed: names.
        kept: files that were due, and hold messages still in queues that were found nowhere else.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]


class Vacuum:
    """Sweeps one table again and again; it remembers since when each file has not been needed.

    Args:
        grace_ms: how long a file stays readable that is no longer part of the table: longer than
            any query that may be reading it.
        protect_messages: the table is `messages`.
    """

    def __init__(self, storage: Storage, grace_ms: int, *, protect_messages: bool) -> None:
        self._storage = storage
        self._grace_ms = grace_ms
        self._protect_messages = protect_messages
        self._idle_since_ms: dict[str, int] = {}

    def sweep(
        self, table: DeltaTable, now_ms: int, lowest_resident: LowestResident | None = None
    ) -> Vacuumed:
        """Remove what is due.

        Replay: what is gone is gone; a second sweep finds less to do.

        Args:
            table: loaded for this sweep.
            now_ms: epoch milliseconds; it does not go back between sweeps.
            lowest_resident: of `messages`; a partition that is not named may have anything
                resident.
        """
        active = ActiveFiles(table)
        due = list(self._due(table, set(active.paths), now_ms))
        kept: set[str] = set()
        if self._protect_messages and due:
            kept = set(self._still_needed(due, active, lowest_resident or {}))
        removed = tuple(sorted(set(due) - kept))
        for name in removed:
            self._storage.delete(name)
            self._idle_since_ms.pop(name, None)
        return Vacuumed(removed, tuple(sorted(kept)))

    def _due(self, table: DeltaTable, active: set[str], now_ms: int) -> Iterator[str]:
        seen: dict[str, int] = {}
        last_batch = functools.cache(table.transaction_version)
        for file in self._storage.files():
            if file.name in active or not _is_over(last_batch, file, now_ms):
                continue
            since_ms = self._idle_since_ms.get(file.name, now_ms)
            seen[file.name] = since_ms
            if now_ms - since_ms >= self._grace_ms:
                yield file.name
        self._idle_since_ms = seen

    def _still_needed(
        self, due: list[str], active: ActiveFiles, lowest_resident: LowestResident
    ) -> Iterator[str]:
        """The files whose resident messages are not all in the table's current files."""
        batch: dict[str, Ints] = {}
        for name in due:
            keys = _resident_keys(self._storage, name, lowest_resident)
            if keys is not None and len(keys):
                batch[name] = keys
            if sum(map(len, batch.values())) > _ROWS_CHECKED_AT_ONCE:
                yield from _not_elsewhere(self._storage, batch, active)
                batch = {}
        yield from _not_elsewhere(self._storage, batch, active)


def _is_over(last_batch: Callable[[str], int | None], file: StoredFile, now_ms: int) -> bool:
    """Whether a file that is not part of the table may be counted as no longer needed."""
    untouched_ms = now_ms - file.modified_ms
    if file.name.startswith("."):
        return file.name.endswith(HIDDEN_END) and untouched_ms >= _UNFINISHED_GRACE_MS
    if not file.name.endswith(".parquet"):
        return False
    name = DataFileName.parse(file.name)
    if name is not None:
        last = last_batch(name.query_id)
        return last is not None and name.batch_id <= last
    return file.name.startswith(JOINED_START) or untouched_ms >= _FOREIGN_GRACE_MS


def _resident_keys(storage: Storage, name: str, lowest_resident: LowestResident) -> Ints | None:
    """The identities in a file that may be of messages in queues; None if there is no such file."""
    if name.endswith(HIDDEN_END):
        return None
    keys = _keys(storage, name)
    if keys is None:
        return None
    lowest = np.zeros(len(keys), np.int64)
    for (topic_number, partition), offset in lowest_resident.items():
        lowest[(keys[:, 0] == topic_number) & (keys[:, 1] == partition)] = offset
    return keys[keys[:, 2] >= lowest]


def _not_elsewhere(
    storage: Storage, wanted: Mapping[str, Ints], active: ActiveFiles
) -> Iterator[str]:
    """The names in `wanted` with a message that none of the active files holds."""
    if not wanted:
        return
    owners = np.repeat(np.arange(len(wanted)), [len(keys) for keys in wanted.values()])
    keys = np.concatenate(list(wanted.values()))
    missing = np.ones(len(keys), np.bool_)
    bounds = [(active.least(column), active.greatest(column)) for column in KEY]
    for index, path in enumerate(active.paths):
        inside = missing.copy()
        for part, (least, greatest) in enumerate(bounds):
            inside &= (keys[:, part] >= least[index]) & (keys[:, part] <= greatest[index])
        found = _keys(storage, path) if inside.any() else None
        if found is not None:
            missing[inside] = ~_among(keys[inside], found)
        if not missing.any():
            return
    names = list(wanted)
    for owner in np.unique(owners[missing]):
        yield names[owner]


def _among(keys: Ints, others: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which identities are among others."""
    kind = np.dtype([("", np.int64)] * len(KEY))
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(
        np.ascontiguousarray(keys).view(kind).reshape(-1),
        np.ascontiguousarray(others).view(kind).reshape(-1),
    )
    return found


def _keys(storage: Storage, path: str) -> Ints | None:
    """The identities in a file; None if it is gone: another process keeps house here too."""
    try:
        with storage.open(path) as file:
            return keys_of(pq.ParquetFile(file).read(columns=list(KEY), use_threads=False))
    except FileNotFoundError:
        return None
