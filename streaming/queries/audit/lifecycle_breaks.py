"""Copies whose events do not add up to a life, and those that `queue_contents` knows otherwise."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from streaming.broker.events import Kind
from streaming.contents.query import CONTENTS, NEVER_APPLIED, progress
from streaming.queries.audit.copy_lifecycle import DEATHS_OF_READY, DEATHS_OF_UNACKED, LIVES, State
from streaming.queries.audit.findings import MOST_NAMED, Clue, What
from streaming.queries.audit.ledger_rows import MESSAGE_KEY
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_id import MessageId

_READY: Final = frozenset({State.READY})
_UNACKED: Final = frozenset({State.UNACKED})
_ALIVE: Final = frozenset({State.READY, State.UNACKED, State.HELD})
_STEPS: Final = {
    "delivered": (_READY, State.UNACKED),
    "requeued": (_UNACKED, State.READY),
    "consumed": (_READY, State.GONE),
    "purged": (_READY, State.GONE),
    "acked": (_UNACKED, State.GONE),
    "held": (_READY | _UNACKED, State.HELD),
    "deleted": (_ALIVE, State.GONE),
}
"""From which states an event can come, and where it leads; of deaths the reason decides."""

_BIRTHS: Final = frozenset({Kind.ENQUEUED.name.lower(), Kind.DIED.name.lower()})
_Event = tuple[int, str, str | None, str | None]
"""seq, kind, reason, queue"""


def count_lives(tables: Tables) -> dict[tuple[int, str | None, State], int]:
    """How many copies are left, by shard, queue and state.

    Makes the temporary table `life`: the copies that are left, and those with impossible lives.
    """
    over = ", ".join(str(life) for life, state in LIVES.items() if state is State.GONE)
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE life AS
        SELECT shard, queue, copy_id, CAST(sum(worth) AS BIGINT) AS life, max(seq) AS last_seq
        FROM event WHERE copy_id IS NOT NULL GROUP BY shard, queue, copy_id
        HAVING life NOT IN ({over})
        """
    )
    return {
        (shard, queue, LIVES[life]): copies
        for shard, queue, life, copies in tables.values(
            "SELECT shard, queue, life, count(*) FROM life GROUP BY shard, queue, life"
        )
        if life in LIVES
    }


def broken_lives(tables: Tables) -> Iterator[Clue]:
    """A clue for every step that no copy can take; after `count_lives`."""
    possible = ", ".join(str(life) for life in LIVES)
    found = tables.values(
        f"""
        SELECT shard, copy_id, {MESSAGE_KEY}, seq, kind, reason, queue
        FROM event SEMI JOIN (
            SELECT DISTINCT shard, copy_id FROM life WHERE life NOT IN ({possible})
            ORDER BY ALL LIMIT {MOST_NAMED}) USING (shard, copy_id)
        ORDER BY shard, copy_id, seq
        """
    )
    for (shard, copy_id, *key), rows in groupby(found, key=lambda row: row[:5]):
        events = [(seq, kind, reason, queue) for *_, seq, kind, reason, queue in rows]
        yield from _walk(shard, copy_id, MessageId(*key), events)


def _walk(shard: int, copy_id: int, message_id: MessageId, events: list[_Event]) -> Iterator[Clue]:
    state: State | None = None
    before = 0
    for seq, kind, reason, queue in events:
        possible, after = _step(kind, reason)
        if seq == copy_id and kind in _BIRTHS:
            after = State.READY if kind == "enqueued" else State.GONE
        elif state is None:
            why = f"it enqueued the copy that event {seq} ({kind}) is about"
            yield Clue(shard, why, message_id, queue, copy_id, copy_id)
        elif state not in possible and not (state is State.HELD and kind == "died"):
            why = f"event {seq} says {kind} of a copy that was {state} after event {before}"
            yield Clue(shard, why, message_id, queue, copy_id, None, before, seq, "contradiction")
        state, before = after, seq


def _step(kind: str, reason: str | None) -> tuple[frozenset[State], State]:
    known = _STEPS.get(kind)
    if known is not None:
        return known
    if reason in DEATHS_OF_READY:
        return _READY, State.GONE
    return (_UNACKED if reason in DEATHS_OF_UNACKED else _ALIVE), State.GONE


def contents_against_events(tables: Tables) -> Iterator[Clue]:
    """What `queue_contents` says of copies to which nothing happened since; after `count_lives`.

    It was made from the same events, so it remembers those that were removed later.
    """
    if not tables.has(CONTENTS):
        return
    behind = progress(tables)
    if len(behind) != 1 or behind[0].as_of == NEVER_APPLIED:
        return
    as_of = behind[0].as_of
    tables.view(CONTENTS)
    states = " ".join(
        f"WHEN {life} THEN '{state}'"
        for life, state in LIVES.items()
        if state in {State.READY, State.UNACKED}
    )
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE differing AS
        WITH stored AS (
            SELECT shard, copy_id, queue, state FROM {CONTENTS} JOIN shard USING (vhost, lane)),
        left_over AS (
            SELECT shard, copy_id, queue, last_seq, CASE life {states} END AS state FROM life)
        SELECT shard, copy_id, coalesce(stored.queue, left_over.queue) AS queue,
               stored.state AS stored, left_over.state AS state
        FROM stored FULL JOIN left_over USING (shard, copy_id)
        WHERE stored.state IS DISTINCT FROM left_over.state
        """
    )
    found = tables.values(
        f"""
        SELECT shard, copy_id, differing.queue, stored, differing.state,
               max(seq), coalesce(max(event.batch_id), 0) AS last_batch,
               any_value(coalesce(event.topic_number, rows.message_id.topic_number)),
               any_value(coalesce(event."partition", rows.message_id."partition")),
               any_value(coalesce(event."offset", rows.message_id."offset"))
        FROM differing LEFT JOIN event USING (shard, copy_id) JOIN shard USING (shard)
        LEFT JOIN {CONTENTS} AS rows USING (vhost, lane, copy_id)
        GROUP BY ALL HAVING last_batch <= {as_of} ORDER BY ALL LIMIT {MOST_NAMED}
        """
    )
    for shard, copy_id, queue, stored, state, last_seq, _batch, *key in found:
        message_id = None if key[0] is None else MessageId(*key)
        has = f"has copy {copy_id} {stored}" if stored else f"does not have copy {copy_id}"
        seen = f"queue_contents (as of batch {as_of}) {has}"
        alone: What
        if last_seq is None:
            alone = "stray row of queue_contents"
            why = f"it enqueued the copy: {seen}"
            yield Clue(shard, why, message_id, queue, copy_id, copy_id, alone=alone)
            continue
        if stored is None:
            alone = "missing row of queue_contents"
        else:
            alone = (
                "stray row of queue_contents" if state is None else "wrong row of queue_contents"
            )
        why = f"{seen}, and the events leave it {state or 'gone'}"
        yield Clue(shard, why, message_id, queue, copy_id, None, last_seq, alone=alone)
