"""Rows of `events` from the events of one shard's batch, by column.

| kind | copy_id | reason | number |
|---|---|---|---|
| enqueued | the new copy | | |
| delivered, consumed | the copy | | earlier returns |
| acked, purged, deleted | the copy | | |
| requeued | the copy | | returns, this one included; in `detail` the cause, if any |
| died | the copy | rejected, expired, maxlen, delivery_limit | in `detail` the cause, if any |
| rerouted | the copy | rejected, orphaned | |
| held | the copy | why it died | |
| refused, unroutable, returned, publish_error | | | reply code, if any |
| command_error, topology, channel, warning, settle_missed | | | |
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import CLOCK, Events, Kind
from streaming.broker.message import NEVER
from streaming.broker.state.pages import encode_envelope
from streaming.ledger.schema.schemas import EVENTS
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.pipeline.rows.amqp_columns import instants
from streaming.pipeline.rows.bounds import MAX_TEXT_BYTES, chunks
from streaming.pipeline.rows.copies import NONE, CopyColumns

KIND_NAMES = ["", *(kind.name.lower() for kind in Kind)]
"""Names of kinds by number; the numbers are dense from 1."""

MAX_ROWS = 1_000_000
"""The most rows of a file: then its columns of names hold less than 2 GiB."""


def event_tables(table: pa.Table, first_seq: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the table of a shard's batch in tables of a file's size: first seq, and rows."""
    details = pc.fill_null(pc.binary_length(table["detail"]), 0).to_numpy()
    ones = np.ones(table.num_rows, np.int64)
    for start, end in chunks((details, MAX_TEXT_BYTES), (ones, MAX_ROWS)):
        yield first_seq + start, table.slice(start, end - start)


def event_table(
    events: Events,
    query_id: str,
    batch_id: int,
    vhost: str,
    lane: int,
    copies: CopyColumns | None = None,
) -> pa.Table:
    """Return the events of a shard's batch, which must have at least one.

    Args:
        copies: of these events, if they are known already.
    """
    copies = copies or CopyColumns(events)
    rows = len(events)
    kinds = np.array(events.kinds, np.int32)
    users, user_codes, channels, channel_codes = _actors(events, rows)
    queue_names, queue_codes = _queues(events.queues)
    envelopes, envelope_codes = _envelopes(copies, events)
    reasons, reason_codes = _reasons(events, rows)
    is_enqueued, is_requeued = kinds == Kind.ENQUEUED, kinds == Kind.REQUEUED
    numbers = np.array(events.numbers, np.int64)
    returns = _returns(copies, kinds, numbers)
    counted = np.where(is_requeued, returns, np.where(is_enqueued, NONE, numbers))
    deadlines = copies.of_copies("deadline_ms")
    deadlines = np.where(is_enqueued & (deadlines != NEVER), deadlines, NONE)
    made = np.flatnonzero(is_enqueued & (copies.parent_copy_id != NONE))
    columns: dict[str, Any] = {
        "query_id": Constant(query_id),
        "batch_id": Constant(batch_id),
        "vhost": Constant(vhost),
        "lane": np.full(rows, lane, np.int32),
        "seq": np.arange(events.first_seq, events.first_seq + rows, dtype=np.int64),
        "at": instants(times_of(events, rows)),
        "kind": Coded(kinds, KIND_NAMES),
        "queue": Coded(queue_codes, queue_names),
        "user": Coded(user_codes, users),
        "channel": Coded(channel_codes, channels),
        "copy_id": nullable(copies.copy_id),
        "parent_copy_id": nullable(copies.parent_copy_id),
        "message_id.topic_number": nullable(copies.topic_number),
        "message_id.partition": nullable(copies.partition),
        "message_id.offset": nullable(copies.offset),
        "body_bytes": nullable(copies.size),
        "exchange": Coded(envelope_codes, [envelope.exchange for envelope in envelopes]),
        "routing_key": Coded(envelope_codes, [envelope.routing_keys[0] for envelope in envelopes]),
        "position": nullable(np.where(is_enqueued | is_requeued, numbers, NONE)),
        "number": nullable(np.where(counted == 0, NONE, counted)),
        "expires_at": instants(nullable(deadlines)),
        "reason": Coded(reason_codes, reasons),
    }
    if len(made):
        columns["envelope"] = _stored_envelopes(envelopes, envelope_codes, made, rows)
    if events.details:
        columns["detail"] = _details(events, rows)
    return build_table(EVENTS, columns, rows)


def _returns(copies: CopyColumns, kinds: Any, numbers: Any) -> Any:
    """Return, for rows of requeued copies, how often they had been requeued then.

    The copy itself knows only its last return in the batch. The delivery after an earlier one has
    its number.
    """
    is_requeued = kinds == Kind.REQUEUED
    found = copies.at_the_end("requeue_count", np.flatnonzero(is_requeued))
    if is_requeued.any():
        rows = np.flatnonzero(is_requeued | (kinds == Kind.DELIVERED))
        rows = rows[np.argsort(copies.copy_id[rows], kind="stable")]
        first, following = rows[:-1], rows[1:]
        again = is_requeued[first] & (copies.copy_id[first] == copies.copy_id[following])
        found[first[again]] = numbers[following[again]]
    return found


def times_of(events: Events, rows: int) -> Any:
    """Return when each event happened, in epoch milliseconds."""
    return _runs(events.times, rows, 0)


def nullable(values: Any) -> pa.Array:
    """Return numbers with null instead of NONE."""
    nothing = values == NONE
    return pa.array(np.where(nothing, 0, values), mask=nothing)


def _runs(runs: list[tuple[int, int]], rows: int, first: int) -> Any:
    """Return a column from runs (row, value from this row on); later runs of a row win."""
    at = dict(runs)
    starts = [row for row in at if row < rows]
    column = np.full(rows, first, np.int64)
    ends = [*starts[1:], rows] if starts else []
    for start, end in zip(starts, ends, strict=True):
        column[start:end] = at[start]
    return column


def _actors(events: Events, rows: int) -> tuple[list[str], Any, list[str], Any]:
    """Return users, the code of each row's user, channels, the code of each row's channel."""
    numbers: dict[Any, int] = {CLOCK: 0}
    runs = [(row, numbers.setdefault(actor, len(numbers))) for row, actor in events.actors]
    codes = _runs(sorted(runs, key=lambda run: run[0]), rows, 0).astype(np.int32)
    for row, actor in events.receivers.items():
        codes[row] = numbers.setdefault(actor, len(numbers))
    users, user_of = _distinct_codes([actor.user for actor in numbers])
    channels, channel_of = _distinct_codes([actor.channel or None for actor in numbers])
    return users, user_of[codes], channels, channel_of[codes]


def _distinct_codes(names: list[str | None]) -> tuple[list[str], Any]:
    """Return the distinct names, and each name's code; None has the code -1."""
    numbers: dict[str, int] = {}
    codes = [-1 if name is None else numbers.setdefault(name, len(numbers)) for name in names]
    return list(numbers), np.array(codes, np.int32)


def _queues(names: list[str]) -> tuple[list[str], Any]:
    """Return the distinct queues, and each row's code; rows without a queue have -1."""
    numbers = {name: code for code, name in enumerate(dict.fromkeys(filter(None, names)))}
    distinct = list(numbers)
    numbers[""] = -1
    return distinct, np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))


def _envelopes(copies: CopyColumns, events: Events) -> tuple[list[Any], Any]:
    """Return the distinct envelopes, and each row's code; rows without an envelope have -1."""
    envelopes, codes = copies.envelopes
    if not events.messages:
        return envelopes, codes
    codes = codes.copy()
    numbers = {envelope: code for code, envelope in enumerate(envelopes)}
    for row, (_message, envelope) in events.messages.items():
        if envelope is not None:
            codes[row] = numbers.setdefault(envelope, len(numbers))
    return list(numbers), codes


def _stored_envelopes(envelopes: list[Any], codes: Any, made: Any, rows: int) -> Coded:
    """Return the envelopes in the rows of copies that a death or a redrive made."""
    used, indices = np.unique(codes[made], return_inverse=True)
    column = np.full(rows, -1, np.int32)
    column[made] = indices
    return Coded(column, [encode_envelope(envelopes[code]) for code in used.tolist()])


def _reasons(events: Events, rows: int) -> tuple[list[str], Any]:
    """Return the distinct reasons, and each row's code; rows without a reason have -1."""
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
