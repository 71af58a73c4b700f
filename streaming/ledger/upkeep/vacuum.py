"""Vacuum: remove files that the table no longer needs, and never one that is still needed.

A file is removed once it has not been part of its table for a whole grace period, and

    a batch wrote it       the table has that batch: the files of a running batch, or of one that a
                           crash left to be replayed, belong to no version yet
    compaction wrote it    it was replaced in turn, or the compaction was abandoned
    another tool wrote it  nobody has touched it for as long as Delta's own vacuum allows
    it is unfinished       nobody has written to it for a day

In `messages`, a file that may hold a message still in a queue is removed only after that very
message was found in a current file of the table. And nothing is removed there for a week while a
batch that has looked letters up in an earlier version may run again.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.ledger.read.message_search import KEY, MessageSearch, keys_of
from streaming.ledger.read.table_files import ActiveFiles, Ints, RowGroups
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import COMPACTED_PREFIX
from streaming.ledger.write.data_file import LOOKUP_STAGE, DataFileName
from streaming.storage.local import HIDDEN_END
from streaming.storage.location import Location
from streaming.storage.port import Storage, StoredFile

_UNFINISHED_GRACE_MS: Final = 24 * 3_600_000
_FOREIGN_GRACE_MS: Final = 7 * 24 * 3_600_000
_MAX_KEYS_PER_SEARCH: Final = 2_000_000
_CACHE_BYTES: Final = 64 * 1024 * 1024

LowestResident = Mapping[tuple[int, int], int]
"""(topic number, partition) -> the lowest offset of which a message may be in a queue."""


@dataclass(frozen=True)
class Vacuumed:
    """The result of one sweep; files are kept if only they hold a queued message."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


class Vacuum:
    """Sweeps one table repeatedly; it remembers since when each file has not been needed.

    Args:
        grace_ms: how long a file stays readable after it left the table: longer than any query
            that may be reading it.
        protect_messages: whether the table is `messages`.
    """

    def __init__(self, place: Location, grace_ms: int, *, protect_messages: bool) -> None:
        self._place = place
        self._storage = place.storage()
        self._grace_ms = grace_ms
        self._protect_messages = protect_messages
        self._unneeded_since_ms: dict[str, int] = {}

    def sweep(
        self, table: DeltaTable, now_ms: int, lowest_resident: LowestResident | None = None
    ) -> Vacuumed:
        """Remove the files that are due.

        Replay: a second sweep finds less to do.

        Args:
            table: loaded for this sweep.
            now_ms: epoch milliseconds, never less than in the sweep before.
            lowest_resident: for `messages`; any message of a partition that is not in it may be in
                a queue.
        """
        active = ActiveFiles(table)
        due = list(self._due(table, set(active.paths), now_ms))
        if self._protect_messages and due and _may_look_up_again(self._place.parent, now_ms):
            return Vacuumed((), ())
        kept: set[str] = set()
        if self._protect_messages and due:
            with closing(RowGroups(self._storage, KEY, _CACHE_BYTES)) as groups:
                search = MessageSearch(self._place, groups)
                kept = set(self._still_needed(due, active, search, lowest_resident or {}))
        removed = tuple(sorted(set(due) - kept))
        for name in removed:
            self._storage.delete(name)
            self._unneeded_since_ms.pop(name, None)
        return Vacuumed(removed, tuple(sorted(kept)))

    def _due(self, table: DeltaTable, active: set[str], now_ms: int) -> Iterator[str]:
        seen: dict[str, int] = {}
        last_batch = functools.cache(table.transaction_version)
        for file in self._storage.files():
            if file.name in active or not _is_over(last_batch, file, now_ms):
                continue
            since_ms = self._unneeded_since_ms.get(file.name, now_ms)
            seen[file.name] = since_ms
            if now_ms - since_ms >= self._grace_ms:
                yield file.name
        self._unneeded_since_ms = seen

    def _still_needed(
        self, due: list[str], active: ActiveFiles, search: MessageSearch, lowest: LowestResident
    ) -> Iterator[str]:
        """The files with a queued message that is not in the table's current files."""
        wanted: dict[str, Ints] = {}
        for name in due:
            keys = _resident_keys(self._storage, name, lowest)
            if len(keys):
                wanted[name] = keys
            sizes = [len(one) for one in wanted.values()]
            if wanted and (name == due[-1] or sum(sizes) > _MAX_KEYS_PER_SEARCH):
                owners = np.repeat(np.arange(len(wanted)), sizes)
                missing = search.missing(np.concatenate(list(wanted.values())), active)
                names = list(wanted)
                yield from (names[owner] for owner in np.unique(owners[missing]))
                wanted = {}


def _may_look_up_again(root: Location, now_ms: int) -> bool:
    """Whether a batch that the tables do not have has looked letters up in `messages`.

    After a while it no longer counts: a batch of a lost checkpoint never ends.
    """
    place = root / LEDGER[-1]
    last_batch: Callable[[str], int | None] | None = None
    for file in place.storage().files():
        name = DataFileName.parse(file.name)
        if (
            name is None
            or name.stage != LOOKUP_STAGE
            or now_ms - file.modified_ms >= _FOREIGN_GRACE_MS
        ):
            continue
        last_batch = last_batch or load_table(place).transaction_version
        last = last_batch(name.query_id)
        if last is None or name.batch_id > last:
            return True
    return False


def _is_over(last_batch: Callable[[str], int | None], file: StoredFile, now_ms: int) -> bool:
    """Whether a file that is not part of the table counts as no longer needed."""
    untouched_ms = now_ms - file.modified_ms
    if file.name.startswith("."):
        return file.name.endswith(HIDDEN_END) and untouched_ms >= _UNFINISHED_GRACE_MS
    if not file.name.endswith(".parquet"):
        return False
    name = DataFileName.parse(file.name)
    if name is not None:
        last = last_batch(name.query_id)
        return last is not None and name.batch_id <= last
    return file.name.startswith(COMPACTED_PREFIX) or untouched_ms >= _FOREIGN_GRACE_MS


def _resident_keys(storage: Storage, name: str, lowest_resident: LowestResident) -> Ints:
    """The keys of a file's messages that may be in queues; none if the file is incomplete."""
    nothing = np.empty((0, len(KEY)), np.int64)
    if name.endswith(HIDDEN_END):
        return nothing
    try:
        with storage.open(name) as file:
            keys = keys_of(pq.ParquetFile(file).read(columns=list(KEY), use_threads=False))
    except FileNotFoundError:  # another process vacuums this table too
        return nothing
    lowest = np.zeros(len(keys), np.int64)
    for (topic_number, partition), offset in lowest_resident.items():
        lowest[(keys[:, 0] == topic_number) & (keys[:, 1] == partition)] = offset
    return keys[keys[:, 2] >= lowest]
