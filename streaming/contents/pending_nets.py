"""Net changes that wait in the driver for the next update of `queue_contents`.

committed batches --add--> pending --after(as of)--> one net per shard --changed--> rows
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streaming.contents.net_changes import (
    BORN,
    CHANGE,
    CONTENTS_SCHEMA,
    GONE,
    MOVED,
    coded,
    last_of,
)
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.write.arrow_columns import build_table
from streaming.storage.port import Storage

MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""The most net changes that the driver keeps; beyond, the next update reads events.

An update takes about ten times as much memory.
"""

Shard = tuple[str, int]
"""Virtual host and lane."""


class Net(NamedTuple):
    """Net changes of one shard.

    Attributes:
        born: rows of the copies that entered and stayed, by copy.
        moved: copies that were delivered or requeued and stayed, one row each: the columns that
            changed; `position` is null if it did not, `returns` is an increment.
        gone: ids of the copies that left; some of them may never have been stored.
    """

    born: pa.Table
    moved: pa.Table
    gone: Any


class ShardNet(NamedTuple):
    """The encoded net changes of one shard's batch."""

    vhost: str
    lane: int
    encoded: bytes


class PendingNets:
    """The net changes of committed batches that `queue_contents` does not have yet. Thread-safe.

    Attributes:
        query_id: the query that wrote the batches; empty: none so far.
        bytes: the size of all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[int, tuple[ShardNet, ...] | None] = {}
        self.query_id = ""
        self.bytes = 0

    def add(self, query_id: str, batch_id: int, nets: Iterable[ShardNet] | None) -> None:
        """Add the net changes of a committed batch; all its shards must have reported them.

        Args:
            nets: None if the batch has no rows, and no table knows it.
        """
        with self._lock:
            if query_id != self.query_id:
                self._batches, self.query_id, self.bytes = {}, query_id, 0
            self._batches[batch_id] = None if nets is None else tuple(nets)
            self._count()
            if self.bytes > MAX_PENDING_BYTES:
                self._batches, self.bytes = {}, 0

    def after(self, query_id: str, as_of: int) -> tuple[int, dict[Shard, Net]] | None:
        """Return the last batch and the net changes of all batches after one; forget earlier ones.

        Returns:
            None if a batch in between has none here, or there is no later batch.
        """
        with self._lock:
            self._batches = {each: net for each, net in self._batches.items() if each > as_of}
            self._count()
            batches = sorted(self._batches)
            if query_id != self.query_id or batches != [
                *range(as_of + 1, as_of + 1 + len(batches))
            ]:
                return None
            pending = [
                (each, nets) for each in batches if (nets := self._batches[each]) is not None
            ]
        if not pending:
            return None
        found: dict[Shard, list[Net]] = {}
        for batch_id, nets in pending:
            for net in nets:
                one = _decoded(net, query_id, batch_id)
                found.setdefault((net.vhost, net.lane), []).append(one)
        return pending[-1][0], {shard: _merged(nets) for shard, nets in found.items()}

    def _count(self) -> None:
        self.bytes = sum(len(net.encoded) for nets in self._batches.values() for net in nets or ())


def _decoded(net: ShardNet, query_id: str, batch_id: int) -> Net:
    table = pa.ipc.open_stream(net.encoded).read_all()
    ends = np.searchsorted(table[CHANGE].to_numpy(), (BORN, MOVED, GONE), side="right")
    rows = table.num_rows
    zeros = np.zeros(rows, np.int32)
    known = {
        "query_id": coded(zeros, [query_id]),
        "batch_id": np.full(rows, batch_id),
        "vhost": coded(zeros, [net.vhost]),
        "lane": np.full(rows, net.lane, np.int32),
    }
    columns = {name: table[name] for name in table.column_names if name != CHANGE}
    table = build_table(CONTENTS_SCHEMA, {**known, **columns}, rows)
    born, moved = table.slice(0, ends[BORN]), table.slice(ends[BORN], ends[MOVED] - ends[BORN])
    return Net(born.cast(CONTENTS_SCHEMA), moved, table["copy_id"].to_numpy()[ends[MOVED] :])


def _merged(nets: Sequence[Net]) -> Net:
    """Return the net changes of successive batches of a shard."""
    gone = np.unique(np.concatenate([net.gone for net in nets]))
    moved = _merged_moves(pa.concat_tables([net.moved for net in nets]), gone)
    born = pa.concat_tables([net.born for net in nets])
    return Net(changed(born, Net(born, moved, gone)), moved, gone)


def _merged_moves(moved: pa.Table, gone: Any) -> pa.Table:
    moved = _one_chunk(moved)
    ids = moved["copy_id"].to_numpy()
    rows = np.flatnonzero(~np.isin(ids, gone))
    copies, last = last_of(ids[rows], rows)
    if len(copies) == moved.num_rows:
        return moved
    where = np.searchsorted(copies, ids[rows])
    returns = np.bincount(where, moved["returns"].to_numpy()[rows], len(copies)).astype(np.int64)
    placed = rows[moved["position"].is_valid().to_numpy()[rows]]
    position_of = np.full(len(copies), -1)
    where, last_placed = last_of(np.searchsorted(copies, ids[placed]), placed)
    position_of[where] = last_placed
    position = moved["position"].take(pa.array(position_of, mask=position_of < 0))
    return _with(moved.take(pa.array(last)), {"returns": pa.array(returns), "position": position})


def changed(rows: pa.Table, net: Net) -> pa.Table:
    """Return rows of `queue_contents` of one shard after net changes, without the born ones."""
    rows = _one_chunk(rows)
    ids = rows["copy_id"].to_numpy()
    if len(net.gone):
        stays = np.flatnonzero(~np.isin(ids, net.gone))
        if len(stays) < len(ids):
            rows, ids = rows.take(pa.array(stays)), ids[stays]
    _both, mine, theirs = np.intersect1d(
        ids, net.moved["copy_id"].to_numpy(), assume_unique=True, return_indices=True
    )
    if not len(mine):
        return rows
    before, after = rows.take(pa.array(mine)), net.moved.take(pa.array(theirs))
    position = pc.coalesce(after["position"], before["position"])
    returns = pc.add(after["returns"], before["returns"])
    names = ("batch_id", "state", "user", "channel")
    columns = {name: after[name].cast(rows.schema.field(name).type) for name in names}
    moved = _with(before, {**columns, "position": position, "returns": returns})
    order = np.arange(len(ids))
    order[mine] = len(ids) + np.arange(len(mine))
    return _one_chunk(pa.concat_tables([rows, moved])).take(pa.array(order))


def read_contents(storage: Storage, path: str) -> pa.Table:
    """Read a file of `queue_contents`."""
    texts = [field.name for field in CONTENTS_SCHEMA if pa.types.is_dictionary(field.type)]
    with storage.open(path) as file:
        found = pq.ParquetFile(file, read_dictionary=texts).read(use_threads=False)
    columns = {name: found[name] for name in CONTENTS_SCHEMA.names if name in found.column_names}
    return build_table(CONTENTS_SCHEMA, columns, found.num_rows).cast(CONTENTS_SCHEMA)


def contents_after(stored: Sequence[pa.Table], nets: Mapping[Shard, Net]) -> pa.Table:
    """Return the rows of `queue_contents` after net changes: some that were stored, and the born.

    Args:
        stored: rows of the files that are replaced.
    """
    before = _by_shard(pa.concat_tables([*stored, CONTENTS_SCHEMA.empty_table()]))
    parts = []
    for shard in sorted({*before, *nets}):
        if shard in before:
            rows = before[shard].sort_by("copy_id")
            parts.append(changed(rows, nets[shard]) if shard in nets else rows)
        if shard in nets:
            parts.append(nets[shard].born)
    return _one_chunk(pa.concat_tables([*parts, CONTENTS_SCHEMA.empty_table()]))


def outdated_files(
    storage: Storage, files: ActiveFiles, nets: Mapping[Shard, Net], few: int
) -> list[str]:
    """Return the files to rewrite: those with a changed row, and those with few rows.

    So at most one file has few rows. If nothing changed, no file is rewritten.
    """
    ids = {
        shard: np.union1d(net.gone, net.moved["copy_id"].to_numpy()) for shard, net in nets.items()
    }
    if not any(map(len, ids.values())) and not any(net.born.num_rows for net in nets.values()):
        return []
    least, greatest = files.least("copy_id"), files.greatest("copy_id")
    found = []
    for path, rows, first, last in zip(files.paths, files.rows, least, greatest, strict=True):
        near = {
            shard: some
            for shard, known in ids.items()
            if len(
                some := known[np.searchsorted(known, first) : np.searchsorted(known, last, "right")]
            )
        }
        if rows < few or (near and _has_any(storage, path, near)):
            found.append(path)
    return sorted(found)


def _has_any(storage: Storage, path: str, ids: Mapping[Shard, Any]) -> bool:
    """Whether a file has rows of these copies."""
    with storage.open(path) as file:
        columns = ["vhost", "lane", "copy_id"]
        keys = pq.ParquetFile(file, read_dictionary=["vhost"]).read(columns, use_threads=False)
    return any(
        np.isin(part["copy_id"].to_numpy(), ids[shard]).any()
        for shard, part in _by_shard(keys).items()
        if shard in ids
    )


def _by_shard(rows: pa.Table) -> dict[Shard, pa.Table]:
    rows = _one_chunk(rows)
    shards = rows.select(["vhost", "lane"]).group_by(["vhost", "lane"]).aggregate([]).to_pylist()
    if len(shards) == 1:
        return {(shards[0]["vhost"], shards[0]["lane"]): rows}
    return {
        (one["vhost"], one["lane"]): rows.filter(
            (pc.field("vhost") == one["vhost"]) & (pc.field("lane") == one["lane"])
        )
        for one in shards
    }


def _with(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, column in columns.items():
        index = table.column_names.index(name)
        table = table.set_column(index, table.schema.field(index), column)
    return table


def _one_chunk(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()
