"""Rows of `dead_letters` from the deaths of one shard's batch, with bodies."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.dead_letters.x_death import headers_after
from streaming.broker.events import DeathOutcome, Events
from streaming.broker.message import Copy, Envelope
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import DEAD_LETTERS
from streaming.ledger.write.arrow_columns import Coded, Constant, Lists, build_table
from streaming.pipeline.rows.amqp_columns import headers_json, instants, without_expiration
from streaming.pipeline.rows.bounds import MAX_BODY_BYTES, MAX_HEADER_BYTES, MAX_TEXT_BYTES, chunks
from streaming.pipeline.rows.copies import CopyColumns
from streaming.pipeline.rows.events import nullable, times_of
from streaming.pipeline.rows.messages import body_places
from streaming.pipeline.rows.stored import published_table

DEATH_BYTES = 64
"""Estimated bytes of an entry of `x_death`, without its names."""


class _Death(NamedTuple):
    """A distinct death."""

    queue: str
    outcome: DeathOutcome


class _Deaths(NamedTuple):
    """Deaths, one per row.

    Attributes:
        rows: of the events.
        causes: what the consumer said; None: no copy of the batch has a cause.
        codes: indexes into `distinct`.
        columns: of all events.
        before: the distinct envelopes of all events; `before_codes` are indexes into it.
    """

    rows: Any
    at_ms: Any
    copies: list[Copy]
    causes: list[str | None] | None
    codes: Any
    distinct: list[_Death]
    columns: CopyColumns
    before: list[Envelope]
    before_codes: Any


def dead_letter_tables(
    events: Events,
    query_id: str,
    batch_id: int,
    vhost: str,
    lane: int,
    bodies: BodyReader,
    max_header_bytes: int,
    known_copies: CopyColumns | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the deaths of a shard's batch in tables of a file's size: seq of the first, and rows.

    Args:
        bodies: reads the columns STORED.
        max_header_bytes: the most bytes that the headers of one Kafka record may have.
        known_copies: of these events, if they are known already.
    """
    if not events.death_rows:
        return
    columns = known_copies or CopyColumns(events)
    envelopes, envelope_codes = columns.envelopes
    rows = np.array(events.death_rows, np.int64)
    copies: list[Any] = [events.copies[row] for row in events.death_rows]
    distinct, codes = _distinct_deaths(events)
    at_ms = times_of(events, len(events))[rows]
    sizes = columns.size[rows]
    texts = np.array([_text_bytes(death) for death in distinct], np.int64)[codes]
    causes = _causes(events)
    if causes is not None:
        texts += np.array([len(cause or "") for cause in causes], np.int64)
    headers = np.full(len(rows), max_header_bytes, np.int64)  # unknown before they are read
    ids = (query_id, batch_id, vhost, lane)
    held: list[pa.Table] = []
    first, body_bytes, text_bytes = 0, 0, 0
    for start, end in chunks(
        (sizes, MAX_BODY_BYTES), (texts, MAX_TEXT_BYTES), (headers, MAX_HEADER_BYTES)
    ):
        part = slice(start, end)
        used, part_codes = np.unique(codes[part], return_inverse=True)
        known = [distinct[code] for code in used.tolist()]
        deaths = _Deaths(
            *(rows[part], at_ms[part], copies[part], None if causes is None else causes[part]),
            *(part_codes.astype(np.int32), known, columns),
            *(envelopes, envelope_codes[rows[part]]),
        )
        table = _table(events.first_seq, deaths, ids, bodies)
        body_bytes += int(sizes[part].sum())
        text_bytes += int(texts[part].sum()) + _header_bytes(table)
        if held and (body_bytes > MAX_BODY_BYTES or text_bytes > MAX_TEXT_BYTES):
            yield events.first_seq + int(rows[first]), _joined(held)
            held, first = [], start
            body_bytes = int(sizes[part].sum())
            text_bytes = int(texts[part].sum()) + _header_bytes(table)
        held.append(table)
    if held:
        yield events.first_seq + int(rows[first]), _joined(held)


def _joined(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()


def _header_bytes(table: pa.Table) -> int:
    """Return the bytes of all headers in a table."""
    sizes = [pc.binary_length(table["headers"])]
    for chunk in table["kafka_headers"].chunks:
        sizes += [pc.binary_length(part) for part in chunk.flatten().flatten()]
    return sum(pc.sum(each).as_py() or 0 for each in sizes)


def _text_bytes(death: _Death) -> int:
    """Estimate the bytes that a row of this death has in text columns."""
    envelope = death.outcome.envelope
    size = sum(map(len, death.outcome.targets))
    for entry in envelope.deaths:
        size += DEATH_BYTES + len(entry.queue) + len(entry.exchange)
        size += sum(map(len, entry.routing_keys))
    return size + sum(map(len, envelope.routing_keys))


def _causes(events: Events) -> list[str | None] | None:
    """Return the cause of each death; None if there is none at all."""
    details = events.details
    if not details:
        return None
    nothing: dict[str, Any] = {}
    causes = [details.get(row, nothing).get("cause") for row in events.death_rows]
    return causes if any(causes) else None


def _distinct_deaths(events: Events) -> tuple[list[_Death], Any]:
    """Return the distinct deaths, and the index of each death into them."""
    outcomes = events.death_outcomes
    numbers = {identity: code for code, identity in enumerate(dict.fromkeys(map(id, outcomes)))}
    codes = np.fromiter(map(numbers.__getitem__, map(id, outcomes)), np.int32, len(outcomes))
    _codes, first = np.unique(codes, return_index=True)
    distinct = [
        _Death(events.queues[events.death_rows[place]], outcomes[place]) for place in first.tolist()
    ]
    return distinct, codes


def _table(
    first_seq: int, deaths: _Deaths, shard: tuple[str, int, str, int], bodies: BodyReader
) -> pa.Table:
    query_id, batch_id, vhost, lane = shard
    rows, at_ms, copies, causes, codes, distinct, known, before, before_codes = deaths
    count = len(rows)
    outcomes = [death.outcome for death in distinct]
    after = [outcome.envelope for outcome in outcomes]
    ids = (known.topic_number[rows], known.partition[rows], known.offset[rows])
    stored = bodies.read(body_places([copy.message for copy in copies], query_id, ids))
    used, before_codes = np.unique(before_codes, return_inverse=True)
    before, before_codes = [before[code] for code in used.tolist()], before_codes.astype(np.int32)
    counts = [envelope.deaths[0].count if envelope.deaths else 0 for envelope in after]
    sent = [None if one.outcome == "no_exchange" else one.envelope for one in outcomes]
    columns: dict[str, Any] = {
        "query_id": Constant(query_id),
        "batch_id": Constant(batch_id),
        "vhost": Constant(vhost),
        "lane": np.full(count, lane, np.int32),
        "seq": rows + first_seq,
        "at": instants(at_ms),
        "message_id.topic_number": ids[0].astype(np.int32),
        "message_id.partition": ids[1].astype(np.int32),
        "message_id.offset": ids[2],
        "copy_id": known.copy_id[rows],
        "parent_copy_id": nullable(known.parent_copy_id[rows]),
        "queue": Coded(codes, [death.queue for death in distinct]),
        "reason": Coded(codes, [outcome.reason for outcome in outcomes]),
        "count": np.array(counts)[codes],
        "targets": _texts([list(outcome.targets) for outcome in outcomes], codes),
        "outcome": Coded(codes, [outcome.outcome or None for outcome in outcomes]),
        "body_bytes": known.size[rows],
        "body": stored["body"],
        "kafka_headers": stored["kafka_headers"],
        "origin": stored["origin"],
        "properties": without_expiration(stored["properties"]),
        "headers": _headers(stored["headers"], after, codes),
        "exchange": Coded(before_codes, [envelope.exchange for envelope in before]),
        "routing_key": Coded(before_codes, [envelope.routing_keys[0] for envelope in before]),
        "routing_keys": _texts([_public_keys(envelope) for envelope in before], before_codes),
        "dead_letter_exchange": Coded(codes, [one and one.exchange for one in sent]),
        "dead_letter_routing_key": Coded(codes, [one and one.routing_keys[0] for one in sent]),
        "x_death": _x_death(after, codes),
    }
    if causes is not None:
        columns["cause"] = causes
    for name in ("first_death", "last_death"):
        notes = [getattr(envelope, name) for envelope in after]
        for place, member in enumerate(("reason", "queue", "exchange")):
            values = [None if note is None else note[place] for note in notes]
            columns[f"{name}.{member}"] = Coded(codes, values)
    return build_table(DEAD_LETTERS, columns, count)


def _headers(published: pa.ChunkedArray, distinct: list[Envelope], codes: Any) -> Any:
    """Return the headers of each death: as published, unless the broker changed them."""
    is_changed = np.array([bool(one.dropped or one.added) for one in distinct], bool)[codes]
    if not is_changed.any():
        return published
    texts = published.to_pylist()
    for row in np.flatnonzero(is_changed).tolist():
        headers = headers_after(distinct[codes[row]], published_table(texts[row]))
        texts[row] = headers_json(headers)
    return texts


def _public_keys(envelope: Envelope) -> list[str]:
    """Return the routing keys without those of BCC."""
    keys = list(envelope.routing_keys)
    for key in envelope.bcc:
        if key in keys:
            keys.remove(key)
    return keys


def _texts(distinct: list[list[str]], codes: Any) -> pa.Array:
    return pa.array(distinct, pa.list_(pa.field("element", pa.string()))).take(pa.array(codes))


def _x_death(distinct: list[Envelope], codes: Any) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum([len(envelope.deaths) for envelope in distinct])))
    deaths = [death for envelope in distinct for death in envelope.deaths]
    lists = Lists(
        offsets.astype(np.int32),
        {
            "count": [death.count for death in deaths],
            "reason": [death.reason for death in deaths],
            "queue": [death.queue for death in deaths],
            "time": instants(pa.array([death.time_s * 1000 for death in deaths], pa.int64())),
            "exchange": [death.exchange for death in deaths],
            "routing_keys": [list(death.routing_keys) for death in deaths],
            "original_expiration": [death.original_expiration for death in deaths],
        },
    )
    table = build_table(
        pa.schema([DEAD_LETTERS.field("x_death")]), {"x_death": lists}, len(distinct)
    )
    return table["x_death"].combine_chunks().take(pa.array(codes))
