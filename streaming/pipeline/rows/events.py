"""Rows of `events` from the events of one shard's batch, by column.

| kind | copy_id | reason | number |
|---|---|---|---|
| enqueued | the new copy | | |
| delivered, consumed | the copy | | earlier returns |
| acked, purged, deleted | the copy | | |
| requeued | the copy | | returns, this one included |
| died | the copy | rejected, expired, maxlen, delivery_limit | |
| rerouted | the copy | rejected, orphaned | |
| held | the copy | why it died | |
| refused, unroutable, returned, publish_error | | | reply code, if any |
| command_error, topology, channel, warning, settle_missed | | | |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import CLOCK, Events, Kind
from streaming.broker.message import NEVER, NO_COPY, Copy
from streaming.ledger.schema.schemas import EVENTS
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.pipeline.rows.body_lookup import MAX_TEXT_BYTES, runs_within

KIND_NAMES = ["", *(kind.name.lower() for kind in Kind)]
"""By number; numbers are dense from 1."""

_MICROS = 1000
_NONE = -1 << 62


MAX_ROWS = 1_000_000
"""Of a file: its columns of names hold less than 2 GiB then."""


def event_tables(
    events: Events, query_id: str, batch_id: int, vhost: str, lane: int
) -> Iterator[tuple[int, pa.Table]]:
    """All events of a shard's batch, in tables that fit into a file: seq of the first, and rows."""
    table = event_table(events, query_id, batch_id, vhost, lane)
    details = pc.fill_null(pc.binary_length(table["detail"]), 0).to_numpy()
    ones = np.ones(table.num_rows, np.int64)
    for start, end in runs_within((details, MAX_TEXT_BYTES), (ones, MAX_ROWS)):
        yield events.first_seq + start, table.slice(start, end - start)


def event_table(events: Events, query_id: str, batch_id: int, vhost: str, lane: int) -> pa.Table:
    """All events of a shard's batch; there must be one."""
    rows = len(events)
    kinds = np.array(events.kinds, np.int32)
    copies = events.copies
    present: list[Copy] = [copy for copy in copies if copy is not None]
    if len(present) == rows:
        places = np.arange(rows)
    else:
        places = np.flatnonzero([copy is not None for copy in copies])
    users, user_codes, channels, channel_codes = _actors(events, rows)
    queue_names, queue_codes = _distinct(events.queues)
    enqueued = kinds == Kind.ENQUEUED
    requeued = kinds == Kind.REQUEUED
    numbers = np.array(events.numbers, np.int64)
    columns: dict[str, Any] = {
        "query_id": Constant(query_id),
        "batch_id": Constant(batch_id),
        "vhost": Constant(vhost),
        "lane": np.full(rows, lane, np.int32),
        "seq": np.arange(events.first_seq, events.first_seq + rows, dtype=np.int64),
        "at": _instants(events, rows),
        "kind": Coded(kinds, KIND_NAMES),
        "queue": Coded(queue_codes, queue_names),
        "user": Coded(user_codes, users),
        "channel": Coded(channel_codes, channels),
    }
    messages = [copy.message for copy in present]
    envelopes = [copy.envelope for copy in present]
    topic = _scatter(rows, places, map(attrgetter("topic_number"), messages))
    partition = _scatter(rows, places, map(attrgetter("partition"), messages))
    offset = _scatter(rows, places, map(attrgetter("offset"), messages))
    size = _scatter(rows, places, map(attrgetter("size"), messages))
    columns["copy_id"] = _nullable(_scatter(rows, places, map(attrgetter("copy_id"), present)))
    parents = _scatter(rows, places, map(attrgetter("parent_copy_id"), present))
    parents[parents == NO_COPY] = _NONE
    columns["parent_copy_id"] = _nullable(parents)
    for row, (message, _envelope) in events.messages.items():
        topic[row], partition[row], offset[row] = (
            message.topic_number,
            message.partition,
            message.offset,
        )
        size[row] = message.size
    columns["message_id.topic_number"] = _nullable(topic, pa.int32())
    columns["message_id.partition"] = _nullable(partition, pa.int32())
    columns["message_id.offset"] = _nullable(offset)
    columns["body_bytes"] = _nullable(size)
    names, codes = _distinct_by_identity(envelopes, rows, places, events)
    columns["exchange"] = Coded(codes, [envelope.exchange for envelope in names])
    columns["routing_key"] = Coded(codes, [envelope.routing_keys[0] for envelope in names])
    positions = np.where(enqueued | requeued, numbers, _NONE)
    columns["position"] = _nullable(positions)
    returns = _scatter(rows, places, map(attrgetter("requeue_count"), present))
    counted = np.where(requeued, returns, np.where(enqueued, _NONE, numbers))
    columns["number"] = _nullable(np.where(counted == 0, _NONE, counted))
    deadlines = _scatter(rows, places, map(attrgetter("deadline_ms"), present))
    deadlines = np.where(enqueued & (deadlines != NEVER), deadlines, _NONE)
    columns["expires_at"] = _as_instants(deadlines)
    reason_names, reason_codes = _reasons(events, rows)
    columns["reason"] = Coded(reason_codes, reason_names)
    if events.details:
        columns["detail"] = _details(events, rows)
    return build_table(EVENTS, columns, rows)


def _scatter(rows: int, places: Any, values: Iterator[int]) -> Any:
    """A column with a value in each of these places, and _NONE in the others."""
    given = np.fromiter(values, np.int64, len(places))
    if len(places) == rows:
        return given
    column = np.full(rows, _NONE, np.int64)
    column[places] = given
    return column


def _nullable(values: Any, kind: pa.DataType | None = None) -> pa.Array:
    array = pa.array(values, mask=values == _NONE)
    return array if kind is None else array.cast(kind)


def _as_instants(at_ms: Any) -> pa.Array:
    nothing = at_ms == _NONE
    micros = np.where(nothing, 0, at_ms) * _MICROS
    return pa.array(micros, mask=nothing).cast(pa.timestamp("us", tz="UTC"))


def _instants(events: Events, rows: int) -> pa.Array:
    return _as_instants(times_of(events, rows))


def times_of(events: Events, rows: int) -> Any:
    """When each event happened, epoch milliseconds."""
    return _runs(events.times, rows, 0)


def _runs(runs: list[tuple[int, int]], rows: int, first: int) -> Any:
    """A column from (row, value from this row on); of several for a row the last counts."""
    at = dict(runs)
    starts = [row for row in at if row < rows]
    column = np.full(rows, first, np.int64)
    ends = [*starts[1:], rows] if starts else []
    for start, end in zip(starts, ends, strict=True):
        column[start:end] = at[start]
    return column


def _actors(events: Events, rows: int) -> tuple[list[str | None], Any, list[str], Any]:
    numbers: dict[Any, int] = {CLOCK: 0}
    runs = [(row, numbers.setdefault(actor, len(numbers))) for row, actor in events.actors]
    codes = _runs(sorted(runs, key=lambda run: run[0]), rows, 0).astype(np.int32)
    for row, actor in events.receivers.items():
        codes[row] = numbers.setdefault(actor, len(numbers))
    users: dict[str, int] = {}
    channels: dict[str, int] = {}
    user_of = np.array(
        [
            -1 if actor.user is None else users.setdefault(actor.user, len(users))
            for actor in numbers
        ],
        np.int32,
    )
    channel_of = np.array(
        [
            channels.setdefault(actor.channel, len(channels)) if actor.channel else -1
            for actor in numbers
        ],
        np.int32,
    )
    return list(users), user_of[codes], list(channels), channel_of[codes]


def _distinct(names: list[str]) -> tuple[list[str], Any]:
    known = dict.fromkeys(names)
    known.pop("", None)
    numbers = {name: code for code, name in enumerate(known)}
    numbers[""] = -1
    return list(known), np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))


def _distinct_by_identity(
    envelopes: list[Any], rows: int, places: Any, events: Events
) -> tuple[list[Any], Any]:
    numbers: dict[Any, int] = {
        envelope: code for code, envelope in enumerate(dict.fromkeys(envelopes))
    }
    codes = np.full(rows, -1, np.int32)
    codes[places] = np.fromiter(map(numbers.__getitem__, envelopes), np.int32, len(envelopes))
    for row, (_message, envelope) in events.messages.items():
        if envelope is not None:
            codes[row] = numbers.setdefault(envelope, len(numbers))
    return list(numbers), codes


def _reasons(events: Events, rows: int) -> tuple[list[str], Any]:
    reasons = [outcome.reason for outcome in events.death_outcomes]
    numbers = {reason: code for code, reason in enumerate(dict.fromkeys(reasons))}
    codes = np.full(rows, -1, np.int32)
    codes[np.array(events.death_rows, np.int64)] = [numbers[reason] for reason in reasons]
    for row, detail in events.details.items():
        reason = detail.get("reason")
        if isinstance(reason, str):
            codes[row] = numbers.setdefault(reason, len(numbers))
    return list(numbers), codes


def _details(events: Events, rows: int) -> pa.Array:
    texts: list[str | None] = [None] * rows
    for row, detail in events.details.items():
        texts[row] = json.dumps(detail, ensure_ascii=False, default=str)
    return pa.array(texts, pa.string())
