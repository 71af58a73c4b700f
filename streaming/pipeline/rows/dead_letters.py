"""Rows of `dead_letters` from the deaths of one shard's batch, bodies included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streaming.broker.events import Events
from streaming.broker.message import NO_COPY, Copy, Envelope
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import DEAD_LETTERS
from streaming.ledger.write.arrow_columns import Coded, Constant, Lists, build_table
from streaming.pipeline.rows.body_lookup import (
    MAX_BYTES,
    MAX_HEADER_BYTES,
    MAX_TEXT_BYTES,
    places_of,
    runs_within,
)
from streaming.pipeline.rows.events import times_of
from streaming.pipeline.rows.messages import headers_json, properties_columns

_MICROS = 1_000_000
DEATH_BYTES = 64
"""Of an entry of `x_death`, beside its names."""


def dead_letter_tables(
    events: Events,
    query_id: str,
    batch_id: int,
    vhost: str,
    lane: int,
    bodies: BodyReader,
    max_header_bytes: int,
) -> Iterator[tuple[int, pa.Table]]:
    """All deaths of a shard's batch: seq of the first, and rows that fit into memory and a file.

    Args:
        bodies: reads the columns body, kafka_headers and origin.
        max_header_bytes: what the headers of one Kafka record may have.
    """
    rows = np.array(events.death_rows, np.int64)
    copies: list[Any] = [events.copies[row] for row in events.death_rows]
    distinct, codes = _distinct_deaths(events)
    at_ms = times_of(events, len(events))[rows]
    texts = np.array([_text_bytes(each) for each in distinct], np.int64)
    foreign = [max_header_bytes * bool(each.death[3].envelope.kafka_headers) for each in distinct]
    for start, end in runs_within(
        ([copy.message.size for copy in copies], MAX_BYTES),
        (texts[codes], MAX_TEXT_BYTES),
        (np.array(foreign, np.int64)[codes], MAX_HEADER_BYTES),
    ):
        part = slice(start, end)
        used, part_codes = np.unique(codes[part], return_inverse=True)
        known = [distinct[code] for code in used.tolist()]
        deaths = _Deaths(rows[part], at_ms[part], copies[part], part_codes.astype(np.int32), known)
        ids = (query_id, batch_id, vhost, lane)
        yield events.first_seq + int(rows[start]), _table(events.first_seq, deaths, ids, bodies)


class _Distinct(NamedTuple):
    """A death as `Events.deaths` gives it, and the message's headers as typed JSON."""

    death: Any
    headers: str | None


class _Deaths(NamedTuple):
    """Some deaths; `distinct` holds the different ones, by code."""

    rows: Any
    at_ms: Any
    copies: list[Copy]
    codes: Any
    distinct: list[_Distinct]


def _text_bytes(distinct: _Distinct) -> int:
    """About what a row of this death takes in the columns of text."""
    envelope = distinct.death[3].envelope
    size = len(distinct.headers or "") + sum(map(len, distinct.death[5]))
    for death in envelope.deaths:
        size += DEATH_BYTES + len(death.queue) + len(death.exchange)
        size += sum(map(len, death.routing_keys))
    return size + sum(map(len, envelope.routing_keys))


def _distinct_deaths(events: Events) -> tuple[list[_Distinct], Any]:
    """The different deaths (plan, outcome, where they arrived), and which of them each is."""
    found, codes = _different(events)
    return [_Distinct(each, headers_json(each[3].envelope.headers)) for each in found], codes


def _different(events: Events) -> tuple[list[Any], Any]:
    outcomes = events.death_outcomes
    numbers: dict[int, int] = {
        outcome: code for code, outcome in enumerate(dict.fromkeys(map(id, outcomes)))
    }
    codes = np.fromiter(map(numbers.__getitem__, map(id, outcomes)), np.int32, len(outcomes))
    _codes, first = np.unique(codes, return_index=True)
    distinct = []
    for place in first.tolist():
        row, outcome = events.death_rows[place], outcomes[place]
        queue = events.queues[row]
        distinct.append((row, None, queue, outcome, outcome.outcome, outcome.targets))
    return distinct, codes


def _table(
    first_seq: int, deaths: _Deaths, ids: tuple[str, int, str, int], bodies: BodyReader
) -> pa.Table:
    query_id, batch_id, vhost, lane = ids
    rows, at_ms, copies, plan_codes, known = deaths
    distinct = [each.death for each in known]
    count = len(rows)
    after = [death[3].envelope for death in distinct]
    stored = bodies.read(places_of([copy.message for copy in copies], query_id))
    columns: dict[str, Any] = {
        "query_id": Constant(query_id),
        "batch_id": Constant(batch_id),
        "vhost": Constant(vhost),
        "lane": np.full(count, lane, np.int32),
        "seq": rows + first_seq,
        "at": pa.array(at_ms * 1000).cast(pa.timestamp("us", tz="UTC")),
        "message_id.topic_number": [copy.message.topic_number for copy in copies],
        "message_id.partition": [copy.message.partition for copy in copies],
        "message_id.offset": [copy.message.offset for copy in copies],
        "copy_id": [copy.copy_id for copy in copies],
        "parent_copy_id": [_parent(copy) for copy in copies],
        "queue": Coded(plan_codes, [death[2] for death in distinct]),
        "reason": Coded(plan_codes, [death[3].reason for death in distinct]),
        "count": np.array([_count(envelope) for envelope in after])[plan_codes],
        "targets": _texts([list(death[5]) for death in distinct], plan_codes),
        "outcome": Coded(plan_codes, [death[4] or None for death in distinct]),
        "body_bytes": [copy.message.size for copy in copies],
        "body": stored["body"],
        "kafka_headers": stored["kafka_headers"],
        "origin": stored["origin"],
        "headers": Coded(plan_codes, [each.headers for each in known]),
    }
    before: dict[Envelope, int] = {}
    before_codes = np.array(
        [before.setdefault(copy.envelope, len(before)) for copy in copies], np.int32
    )
    columns["exchange"] = Coded(before_codes, [envelope.exchange for envelope in before])
    columns["routing_key"] = Coded(before_codes, [envelope.routing_keys[0] for envelope in before])
    columns["routing_keys"] = _texts([list(_keys(envelope)) for envelope in before], before_codes)
    sent = [death[3].outcome != "no_exchange" for death in distinct]
    columns["dead_letter_exchange"] = Coded(
        plan_codes,
        [envelope.exchange if known else None for envelope, known in zip(after, sent, strict=True)],
    )
    columns["dead_letter_routing_key"] = Coded(
        plan_codes,
        [
            envelope.routing_keys[0] if known else None
            for envelope, known in zip(after, sent, strict=True)
        ],
    )
    properties = [dict(envelope.properties) for envelope in after]
    columns.update(properties_columns(properties, plan_codes))
    columns["x_death"] = _x_death(after, plan_codes)
    for name, notes in (
        ("first_death", [envelope.first_death for envelope in after]),
        ("last_death", [envelope.last_death for envelope in after]),
    ):
        for place, member in enumerate(("reason", "queue", "exchange")):
            columns[f"{name}.{member}"] = Coded(
                plan_codes, [None if note is None else note[place] for note in notes]
            )
    return build_table(DEAD_LETTERS, columns, count)


def _keys(envelope: Envelope) -> tuple[str, ...]:
    if not envelope.bcc:
        return envelope.routing_keys
    keys = list(envelope.routing_keys)
    for key in envelope.bcc:
        if key in keys:
            keys.remove(key)
    return tuple(keys)


def _parent(copy: Copy) -> int | None:
    return None if copy.parent_copy_id == NO_COPY else copy.parent_copy_id


def _count(envelope: Envelope) -> int:
    return envelope.deaths[0].count if envelope.deaths else 0


def _texts(distinct: list[list[str]], codes: Any) -> pa.Array:
    return pa.array(distinct, pa.list_(pa.field("element", pa.string()))).take(pa.array(codes))


def _x_death(distinct: list[Envelope], codes: Any) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum([len(envelope.deaths) for envelope in distinct])))
    deaths = [death for envelope in distinct for death in envelope.deaths]
    times = pa.array([death.time_s * _MICROS for death in deaths], pa.int64())
    lists = Lists(
        offsets.astype(np.int32),
        {
            "count": [death.count for death in deaths],
            "reason": [death.reason for death in deaths],
            "queue": [death.queue for death in deaths],
            "time": times.cast(pa.timestamp("us", tz="UTC")),
            "exchange": [death.exchange for death in deaths],
            "routing_keys": [list(death.routing_keys) for death in deaths],
            "original_expiration": [death.original_expiration for death in deaths],
        },
    )
    table = build_table(
        pa.schema([DEAD_LETTERS.field("x_death")]), {"x_death": lists}, len(distinct)
    )
    return table["x_death"].combine_chunks().take(pa.array(codes))
