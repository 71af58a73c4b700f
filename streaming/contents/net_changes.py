"""The net effect of a batch on the queues: what entered and stayed, what left, what moved.

    a task's events --> net changes, one Arrow table, in its report --> the driver --> the contents

A copy that enters and leaves in one batch is in none of it. So an update of `queue_contents` costs
what the queues changed, not what happened, and reads no events. The events remain the truth: the
contents that they give and those of net changes are the same, and without net changes (after a
start, or if there are too many) the update reads events.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import ENDINGS, Kind
from streaming.ledger.schema.schemas import QUEUE_CONTENTS
from streaming.ledger.write.arrow_columns import build_table

MAX_NET_BYTES: Final = 16 * 1024 * 1024
"""A task reports no larger net changes: they pass through Spark's driver."""

_OTHER, _ENTERED, _LEFT, _DELIVERED, _REQUEUED = range(5)
_CLASSES: Final = {
    **dict.fromkeys((*ENDINGS, Kind.HELD), _LEFT),
    Kind.ENQUEUED: _ENTERED,
    Kind.DELIVERED: _DELIVERED,
    Kind.REQUEUED: _REQUEUED,
}
_STATES: Final = ["ready", "unacked"]

CHANGE: Final = "change"
"""The column that says what a row of net changes is; they are in the order of these numbers."""

BORN, MOVED, GONE = range(3)

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
CONTENTS_SCHEMA: Final = pa.schema(
    [
        pa.field(
            field.name,
            _TEXT if pa.types.is_string(field.type) else field.type,
            nullable=field.nullable,
        )
        for field in QUEUE_CONTENTS
    ]
)
"""The schema of `queue_contents`; texts are dictionary-encoded."""

_KNOWN: Final = ("query_id", "batch_id", "vhost", "lane")  # the driver knows them
_NET_SCHEMA: Final = pa.schema(
    [
        pa.field(CHANGE, pa.int8()),
        *(pa.field(one.name, one.type) for one in CONTENTS_SCHEMA if one.name not in _KNOWN),
    ]
)


def net_changes(events: pa.Table) -> pa.Table:
    """Return the net changes of a shard's batch, from all its events in order.

    Args:
        events: rows of `events`, at least one; `kind` is dictionary-encoded.
    """
    kinds = _kinds(events["kind"])
    copies = pc.fill_null(events["copy_id"], -1).to_numpy()
    first = events["seq"][0].as_py()
    seqs = np.arange(first, first + len(kinds))
    left = copies[(kinds == _LEFT) & (copies != seqs)]
    is_gone = np.zeros(len(kinds), bool)
    is_gone[left[left >= first] - first] = True
    gone = np.unique(left[left < first])
    born = _born(events, np.flatnonzero((kinds == _ENTERED) & ~is_gone))
    rows = np.flatnonzero(kinds >= _DELIVERED)
    ids = copies[rows]
    stays = ~np.isin(ids, gone)
    stays[stays] = ~is_gone[np.maximum(ids[stays] - first, 0)] | (ids[stays] < first)
    moved = _moved(events, kinds, rows[stays], ids[stays])
    return pa.concat_tables([born, moved, _table({"copy_id": gone}, len(gone), GONE)])


def encode(net: pa.Table) -> bytes | None:
    """Encode net changes for a report; None if they are too large for one."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, _NET_SCHEMA, options=options) as writer:
        writer.write_table(net.unify_dictionaries().combine_chunks())
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded if len(encoded) <= MAX_NET_BYTES else None


def _kinds(column: pa.ChunkedArray) -> Any:
    """Return what each kind does to a copy."""
    array = column.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    names = array.dictionary.to_pylist()
    known = {kind.name.lower(): what for kind, what in _CLASSES.items()}
    classes = np.array([known.get(name, _OTHER) for name in names], np.int8)
    return classes[array.indices.to_numpy()]


def _born(events: pa.Table, rows: Any) -> pa.Table:
    found = events.select(
        [
            *("copy_id", "parent_copy_id", "message_id", "queue", "position", "at", "expires_at"),
            *("exchange", "routing_key", "body_bytes"),
        ]
    ).take(pa.array(rows))
    columns = dict(zip(found.column_names, found.columns, strict=True))
    columns["enqueued_at"] = columns.pop("at")
    columns["state"] = coded(np.zeros(len(rows), np.int32), _STATES)
    columns["returns"] = np.zeros(len(rows), np.int64)
    return _table(columns, len(rows), BORN)


def _moved(events: pa.Table, kinds: Any, rows: Any, ids: Any) -> pa.Table:
    """Return a row for each copy, from its last event; returns and position from all of them."""
    copies, last = last_of(ids, rows)
    is_unacked = kinds[last] == _DELIVERED
    is_return = kinds[rows] == _REQUEUED
    returned, last_return = last_of(ids[is_return], rows[is_return])
    places = np.searchsorted(copies, returned)
    returns = np.bincount(np.searchsorted(copies, ids[is_return]), minlength=len(copies))
    position_of = np.full(len(copies), -1)
    position_of[places] = last_return
    holders = pa.array(last, mask=~is_unacked)
    columns = {
        "copy_id": copies,
        "state": coded(is_unacked.astype(np.int32), _STATES),
        "position": events["position"].take(pa.array(position_of, mask=position_of < 0)),
        "returns": returns.astype(np.int64),
        "user": events["user"].take(holders),
        "channel": events["channel"].take(holders),
    }
    return _table(columns, len(copies), MOVED)


def last_of(ids: Any, values: Any) -> tuple[Any, Any]:
    """Return the distinct ids in order, and the last value of each."""
    distinct, back = np.unique(ids[::-1], return_index=True)
    return distinct, values[::-1][back]


def coded(codes: Any, texts: list[str]) -> pa.DictionaryArray:
    """Return a column of few distinct texts."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts, pa.string()))


def _table(columns: dict[str, Any], rows: int, change: int) -> pa.Table:
    changes = np.full(rows, change, np.int8)
    return build_table(_NET_SCHEMA, {CHANGE: changes, **columns}, rows).cast(_NET_SCHEMA)
