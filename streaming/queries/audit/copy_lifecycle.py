"""Check that the events of each copy add up to a possible lifecycle.

    enqueued --> ready --delivered--> unacked     ready ----> consumed, purged, died (age, length),
                   ^                     |                    redriven, discarded
                   |                     |        unacked --> acked, died or rerouted (rejected)
                   +------requeued-------+        either ---> deleted, rerouted (orphaned)
                                                  either ---> held --> died, deleted, rerouted

Each event counts in its own field of one integer, so one sum per copy describes its lifecycle.
There are few possible sums. Any other sum means that an event is missing or repeated.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import groupby
from typing import Final

from streaming.broker.events import Kind
from streaming.queries.as_of.contents import CONTENTS, NEVER_APPLIED, progress
from streaming.queries.audit.ledger_rows import MESSAGE_KEY
from streaming.queries.audit.unexplained import MAX_NAMED, Clue, What, event_about, word
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from topology.sentences import say


class State(StrEnum):
    """The state of a copy."""

    READY = "ready"
    UNACKED = "unacked"
    HELD = "held"
    GONE = "gone"


BORN: Final = 1
ENDED: Final = 1 << 8
FROM_READY: Final = 1 << 16
FROM_UNACKED: Final = 1 << 24
HELD: Final = 1 << 32
LENT: Final = 1 << 40
"""Plus one when delivered, minus one when requeued. The fields below it hold up to 255."""

DEATHS_OF_READY: Final = ("expired", "maxlen")
DEATHS_OF_UNACKED: Final = ("rejected", "delivery_limit")

_VALUES: Final = {
    Kind.ENQUEUED: BORN,
    Kind.DELIVERED: LENT,
    Kind.REQUEUED: -LENT,
    Kind.CONSUMED: ENDED + FROM_READY,
    Kind.PURGED: ENDED + FROM_READY,
    Kind.ACKED: ENDED + FROM_UNACKED,
    Kind.DELETED: ENDED,
    Kind.REDRIVEN: ENDED + FROM_READY,
    Kind.DISCARDED: ENDED + FROM_READY,
    Kind.HELD: HELD,
}


def _possible_sums() -> dict[int, State]:
    sums = {BORN: State.READY, BORN + LENT: State.UNACKED}
    for lent in (0, LENT):
        sums[BORN + HELD + lent] = State.HELD
        for held in (0, HELD):
            sums[BORN + ENDED + lent + held] = State.GONE
            sums[BORN + ENDED + (FROM_UNACKED if lent else FROM_READY) + lent + held] = State.GONE
    return sums


LIFECYCLES: Final = _possible_sums()
"""The sum of every possible lifecycle, and the state of its copy."""


def event_value_sql() -> str:
    """What an event adds to its copy's sum, by `kind`, `reason`, `seq` and `copy_id`.

    One event is both birth and death of a message that is rejected into a dead-letter exchange.
    """
    cases = " ".join(f"WHEN '{kind.name.lower()}' THEN {value}" for kind, value in _VALUES.items())
    died = (
        f"{ENDED} + CASE WHEN reason IN {DEATHS_OF_READY} THEN {FROM_READY} "
        f"WHEN reason IN {DEATHS_OF_UNACKED} THEN {FROM_UNACKED} ELSE 0 END "
        f"+ CASE WHEN copy_id = seq THEN {BORN} ELSE 0 END"
    )
    rerouted = f"{ENDED} + CASE WHEN reason IN {DEATHS_OF_UNACKED} THEN {FROM_UNACKED} ELSE 0 END"
    return f"CASE kind {cases} WHEN 'died' THEN {died} WHEN 'rerouted' THEN {rerouted} ELSE 0 END"


_OPENING: Final = {State.READY: BORN, State.UNACKED: BORN + LENT, State.HELD: BORN + HELD}
"""What a copy of a snapshot adds to its sum, by its state there."""

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
    "redriven": (_READY, State.GONE),
    "discarded": (_READY, State.GONE),
    "republished": (frozenset({State.GONE}), State.GONE),
}
"""The states in which an event can happen, and the state it leads to; of deaths see `_step`."""

_BIRTHS: Final = frozenset({Kind.ENQUEUED.name.lower(), Kind.DIED.name.lower()})
_Event = tuple[int, str, str | None, str | None]
"""seq, kind, reason, queue"""


def count_copies(tables: Tables) -> dict[tuple[int, str | None, State], int]:
    """Count the remaining copies by shard, queue and state.

    Creates the temporary table `lifecycle`: the remaining copies, and those with impossible sums.
    A letter that is published again may have ended before the snapshot that the events follow.
    """
    over = ", ".join(str(total) for total, state in LIFECYCLES.items() if state is State.GONE)
    before = " ".join(f"WHEN '{state}' THEN {total}" for state, total in _OPENING.items())
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE lifecycle AS
        WITH opened AS (
            SELECT shard, queue, copy_id, copy_id AS seq, CASE state {before} END AS value
            FROM opening),
        changed AS (SELECT DISTINCT shard, copy_id FROM event WHERE copy_id IS NOT NULL),
        begun AS (SELECT shard, min(seq) AS first_seq FROM event GROUP BY shard)
        SELECT shard, queue, copy_id, max(seq) AS last_seq, CAST(sum(value) AS BIGINT) AS total
        FROM (SELECT shard, queue, copy_id, seq, {event_value_sql()} AS value
              FROM event JOIN begun USING (shard) WHERE copy_id IS NOT NULL
              AND (kind <> 'republished' OR copy_id >= first_seq)
              UNION ALL FROM opened SEMI JOIN changed USING (shard, copy_id))
        GROUP BY shard, queue, copy_id
        HAVING total NOT IN ({over})
        UNION ALL FROM opened ANTI JOIN changed USING (shard, copy_id)
        """
    )
    left: dict[tuple[int, str | None, State], int] = {}
    for shard, queue, total, copies in tables.values(
        "SELECT shard, queue, total, count(*) FROM lifecycle GROUP BY shard, queue, total"
    ):
        state = LIFECYCLES.get(total)
        if state is not None:  # several lifecycles lead to held
            left[shard, queue, state] = left.get((shard, queue, state), 0) + copies
    return left


def broken_lifecycles(tables: Tables) -> Iterator[Clue]:
    """Find steps that no copy can take, after `count_copies`."""
    possible = ", ".join(map(str, LIFECYCLES))
    found = tables.values(
        f"""
        SELECT shard, copy_id, {MESSAGE_KEY}, seq, kind, reason, queue
        FROM (SELECT shard, copy_id, {MESSAGE_KEY}, seq, kind, reason, queue FROM event
              UNION ALL SELECT shard, copy_id, {MESSAGE_KEY}, copy_id, state, NULL, queue
              FROM opening) SEMI JOIN (
            SELECT DISTINCT shard, copy_id FROM lifecycle WHERE total NOT IN ({possible})
            ORDER BY ALL LIMIT {MAX_NAMED}) USING (shard, copy_id)
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
        if seq == copy_id and kind in _OPENING:
            after = State(kind)
        elif seq == copy_id and kind in _BIRTHS:
            after = State.READY if kind == "enqueued" else State.GONE
        elif state is None:
            why = event_about(seq, kind)
            yield Clue(shard, why, message_id, queue, copy_id, copy_id)
        elif state not in possible and not (state is State.HELD and kind == "died"):
            why = say(
                "event %(seq)s says %(kind)s, but the copy was %(state)s after event %(before)s",
                seq=str(seq),
                kind=word(kind),
                state=word(state),
                before=str(before),
            )
            yield Clue(shard, why, message_id, queue, copy_id, None, before, seq, "contradiction")
        state, before = after, seq


def _step(kind: str, reason: str | None) -> tuple[frozenset[State], State]:
    known = _STEPS.get(kind)
    if known is not None:
        return known
    if reason in DEATHS_OF_READY:
        return _READY, State.GONE
    return (_UNACKED if reason in DEATHS_OF_UNACKED else _ALIVE), State.GONE


def contents_against_events(tables: Tables, since: int = NEVER_APPLIED) -> Iterator[Clue]:
    """Compare `queue_contents` with the events of unchanged copies, after `count_copies`.

    It was derived from the same events, so it still has copies whose events were removed later.

    Args:
        since: the batch after which the events begin; older contents cannot be compared with them.
    """
    if tables.cut is not None or not tables.has(CONTENTS):
        return
    behind = progress(tables)
    if len(behind) != 1 or behind[0].as_of == NEVER_APPLIED:
        return
    as_of = behind[0].as_of
    if as_of < since:
        return
    tables.view(CONTENTS)
    states = " ".join(
        f"WHEN {total} THEN '{state}'"
        for total, state in LIFECYCLES.items()
        if state in {State.READY, State.UNACKED}
    )
    both = f"""
        stored AS (
            SELECT shard, copy_id, queue, state FROM {CONTENTS} JOIN shard USING (vhost, lane)),
        left_over AS (
            SELECT shard, copy_id, queue, last_seq, CASE total {states} END AS state FROM lifecycle)
    """
    sums = [  # far cheaper than the join, and nearly always equal
        f"(SELECT (count(*), sum(hash(shard, copy_id, state))) FROM {side} WHERE state IS NOT NULL)"
        for side in ("stored", "left_over")
    ]
    [(same,)] = tables.values(f"WITH {both} SELECT {' IS NOT DISTINCT FROM '.join(sums)}")
    if same:
        return
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE differing AS
        WITH {both}
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
        GROUP BY ALL HAVING last_batch <= {as_of} ORDER BY ALL LIMIT {MAX_NAMED}
        """
    )
    for shard, copy_id, queue, stored, state, last_seq, _batch, *key in found:
        message_id = None if key[0] is None else MessageId(*key)
        place: dict[str, str] = {"batch": str(as_of), "copy": str(copy_id)}
        seen = say("queue_contents (as of batch %(batch)s) does not have copy %(copy)s", **place)
        if stored is not None:
            seen = say(
                "queue_contents (as of batch %(batch)s) has copy %(copy)s as %(state)s",
                state=word(stored),
                **place,
            )
        alone: What = "wrong row of queue_contents"
        if stored is None:
            alone = "missing row of queue_contents"
        elif state is None:
            alone = "stray row of queue_contents"
        if last_seq is None:
            why = say("it enqueued the copy, since %(seen)s", seen=seen)
            yield Clue(shard, why, message_id, queue, copy_id, copy_id, alone=alone)
            continue
        why = say(
            "%(seen)s, but by the events it is %(state)s",
            seen=seen,
            state=word(state) if state else say("gone"),
        )
        yield Clue(shard, why, message_id, queue, copy_id, None, last_seq, alone=alone)
