"""Counts what a shard's batch did, from columns that exist already: metrics must cost little."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import Events, Kind
from streaming.broker.lanes import HOME
from streaming.broker.message import CONFIRM
from streaming.broker.outbound import AnswerOut, ConfirmOut, DeliveryOut
from streaming.broker.shard import Batch
from streaming.pipeline.rows.events import KIND_NAMES
from streaming.pipeline.shard_block import Records
from streaming.pipeline.traffic import (
    ALL_TARGETS,
    PUBLISHED,
    REDELIVERED,
    SIZE_BOUNDS,
    BatchTraffic,
    Clients,
    QueueDeaths,
)

_NAMES: Final = (*KIND_NAMES, PUBLISHED, REDELIVERED)
_PUBLISHED: Final = len(KIND_NAMES)
_REDELIVERED: Final = _PUBLISHED + 1
_CHANGES: Final = {
    "queue_declared": "queues_created",
    "queue_deleted": "queues_deleted",
    "channel_closed": "channels_closed",
}


class EventCounter:
    """Counts events by queue and kind while their tables are written."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[str, int]] = {}

    def passing(self, tables: Iterator[tuple[int, pa.Table]]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the tables of `event_tables` unchanged, and count their rows."""
        for first, table in tables:
            self._add(table)
            yield first, table

    def _add(self, table: pa.Table) -> None:
        kinds, _ = _codes(table, "kind")
        queues, names = _codes(table, "queue")
        base = (queues + 1) * len(_NAMES)
        is_new = (kinds == Kind.ENQUEUED) & ~_is_valid(table, "parent_copy_id")
        is_again = (kinds <= Kind.CONSUMED) & (kinds >= Kind.DELIVERED) & _is_valid(table, "number")
        pairs = (base + kinds, base[is_new] + _PUBLISHED, base[is_again] + _REDELIVERED)
        counts = np.bincount(np.concatenate(pairs))
        found = np.flatnonzero(counts)
        queues, codes = np.divmod(found, len(_NAMES))
        for queue, code, count in zip(
            queues.tolist(), codes.tolist(), counts[found].tolist(), strict=True
        ):
            name = names[queue - 1] if queue else ""
            of_queue = self.kinds.get(name)
            if of_queue is None:
                of_queue = self.kinds[name] = {}
            kind = _NAMES[code]
            of_queue[kind] = of_queue.get(kind, 0) + count


def _codes(table: pa.Table, column: str) -> tuple[Any, list[str]]:
    """Return the code of each row, -1 for null, and the names of the codes."""
    chunk = table[column].combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.unify_dictionaries().combine_chunks()
    indices = chunk.indices
    if indices.null_count:
        indices = pc.fill_null(indices, -1)
    return indices.to_numpy(zero_copy_only=False).astype(np.int32), chunk.dictionary.to_pylist()


def _is_valid(table: pa.Table, column: str) -> Any:
    return pc.is_valid(table[column]).to_numpy()


def traffic_of(
    batch: Batch,
    records: Records,
    events: EventCounter,
    state_bytes: tuple[int, int],
    lane: int = HOME,
) -> BatchTraffic:
    """Return what a batch did on a lane.

    Args:
        events: has counted the events of the batch.
        state_bytes: bytes read from the state, and written to it.
    """
    is_publish = records.publishes()
    sizes = records.columns["size"][is_publish]
    bounds = np.searchsorted(SIZE_BOUNDS, sizes)
    counts = Counter(
        {
            "state_read": state_bytes[0],
            "state_written": state_bytes[1],
            "received": int(is_publish.sum()),
            "received_bytes": int(sizes.sum()),
            "received_confirm": int(((records.columns["flags"] & CONFIRM) != 0)[is_publish].sum()),
        }
    )
    counts.update(_outbound_counts(batch, lane))
    deleted = set()
    for detail in batch.events.details.values():
        what = detail.get("what")
        if what in _CHANGES:
            counts[_CHANGES[what]] += 1
        if what == "queue_deleted":
            deleted.add(detail["name"])
    overview = batch.overview
    return BatchTraffic(
        counts={name: count for name, count in counts.items() if count},
        kinds=events.kinds,
        deaths=_deaths(batch.events),
        sizes=np.bincount(bounds, minlength=len(SIZE_BOUNDS) + 1).tolist(),
        queues=overview.queues,
        deleted=sorted(deleted - {queue.name for queue in overview.queues}),
        clients=Clients(*overview.clients()) if overview.channels.has_changed else None,
    )


def _outbound_counts(batch: Batch, lane: int) -> Counter[str]:
    """Count outbound records; what all lanes answer together counts on the home lane."""
    counts: Counter[str] = Counter()
    consumed = confirmed = 0  # nearly all
    for one in batch.outbound:
        if isinstance(one, DeliveryOut):
            if one.consumer_id and one.consumer_number:
                consumed += 1
            else:
                way = "get" if one.got else "consume"
                counts[f"{way}_{'manual' if one.consumer_id else 'auto'}"] += 1
        elif isinstance(one, ConfirmOut):
            if lane != HOME and one.part:
                continue
            if one.ack:
                confirmed += 1
            else:
                counts["nacked"] += 1
        elif isinstance(one, AnswerOut):
            _count_answer(one, lane, counts)
    counts["consume_manual"], counts["confirmed"] = consumed, confirmed
    return counts


def _count_answer(answer: AnswerOut, lane: int, counts: Counter[str]) -> None:
    """Count an empty get, or a declaration."""
    if answer.refusal is not None:
        return
    if answer.op == "get" and answer.result.get("lane", lane) == lane:
        counts["get_empty"] += not answer.result["delivered"]
    elif answer.op == "declare_queue" and lane == HOME:
        counts["queues_declared"] += 1


def _deaths(events: Events) -> list[QueueDeaths]:
    queues = events.queues
    alike = Counter(
        zip((queues[row] for row in events.death_rows), events.death_outcomes, strict=True)
    )
    found: Counter[tuple[str, str, str]] = Counter()
    for (queue, outcome), count in alike.items():
        found[queue, outcome.reason, outcome.outcome or ALL_TARGETS] += count
    return [QueueDeaths(*key, count) for key, count in sorted(found.items())]
