"""Rules between the tables of the ledger, each with a query for the rows that break it.

    messages      every message has an event of its arrival, every arrival its message
    deaths        every death has its row in dead_letters, every row its event
    targets       every queue that a death names as a target got its copy
    batches       every batch has its batch row, and as many rows as that says

Two more rules have their own files: the numbers of a shard have no gaps (`sequence_gaps`), and a
copy's events form a lifecycle (`copy_lifecycle`). Each rule is first checked by a count; the rows
are only searched if the count is wrong.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from streaming.ledger.batch_detail import BatchRow
from streaming.queries.audit.ledger_rows import DEATHS, MESSAGE_KEY, Shard
from streaming.queries.audit.unexplained import MAX_NAMED, Clue, Finding, What, word
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from topology.sentences import say

Evidence = Clue | Finding

_LIMIT: Final = f"LIMIT {MAX_NAMED}"
_ARRIVALS: Final = """
    (FROM event ANTI JOIN refused_before USING (shard, seq) WHERE topic_number IS NOT NULL
     AND (copy_id IS NULL OR (copy_id = seq AND parent_copy_id IS NULL))) AS arrival
"""
"""The events of a publish: copies, or an event that says why there are none."""

_DIED: Final = f"(FROM event WHERE kind IN {DEATHS}) AS died"


def messages(tables: Tables, shards: dict[int, Shard]) -> Iterator[Evidence]:
    """Every message is in `messages`, and is enqueued, refused, returned or dropped."""
    [(arrivals, without_event, without_message, pairs)] = tables.values(
        f"""
        SELECT (SELECT count(*) FROM {_ARRIVALS}),
               count(*) FILTER (WHERE arrival.seq IS NULL),
               count(*) FILTER (WHERE message.batch_id IS NULL), count(*)
        FROM {_ARRIVALS} FULL JOIN message USING ({MESSAGE_KEY})
        """
    )
    if without_event:
        yield from _without_events(tables)
    if without_message:
        yield from _without_messages(tables, shards)
    if pairs - without_event > arrivals:
        rows = f"SELECT shard, NULL, NULL, {MESSAGE_KEY} FROM message"
        yield from _repeated(tables, shards, "messages", rows)


def _without_events(tables: Tables) -> Iterator[Clue]:
    for shard, batch_id, after, before, *key in tables.values(
        f"""
        WITH lost AS (
            SELECT message.* FROM message ANTI JOIN {_ARRIVALS} USING ({MESSAGE_KEY})
            ORDER BY ALL {_LIMIT}),
        bounds AS (
            SELECT shard, batch_id, min(seq) AS first, max(seq) AS last
            FROM event GROUP BY shard, batch_id)
        SELECT lost.shard, lost.batch_id,
               (SELECT max(last) FROM bounds
                WHERE bounds.shard = lost.shard AND bounds.batch_id < lost.batch_id),
               (SELECT min(first) FROM bounds
                WHERE bounds.shard = lost.shard AND bounds.batch_id > lost.batch_id),
               {MESSAGE_KEY}
        FROM lost ORDER BY ALL
        """
    ):
        message_id = MessageId(*key)
        why = say(
            "it arrived in batch %(batch)s, and no event says what happened to it",
            batch=str(batch_id),
        )
        yield Clue(shard, why, message_id, None, None, None, after or 0, before)


def _without_messages(tables: Tables, shards: dict[int, Shard]) -> Iterator[Finding]:
    for shard, seq, queue, *key in tables.values(
        f"""
        SELECT shard, min(seq), min_by(queue, seq), {MESSAGE_KEY}
        FROM {_ARRIVALS} ANTI JOIN message USING ({MESSAGE_KEY})
        GROUP BY shard, {MESSAGE_KEY} ORDER BY ALL {_LIMIT}
        """
    ):
        why = say("messages has no row of it, but event %(seq)s is about it", seq=str(seq))
        yield _finding("missing message", shards[shard], why, queue=queue, key=key)


def deaths(tables: Tables, shards: dict[int, Shard]) -> Iterator[Evidence]:
    """A death is an event and a row of dead_letters with the same seq."""
    [(events, without_row, without_event, pairs)] = tables.values(
        f"""
        SELECT (SELECT count(*) FROM {_DIED}), count(*) FILTER (WHERE death.batch_id IS NULL),
               count(*) FILTER (WHERE died.batch_id IS NULL), count(*)
        FROM {_DIED} FULL JOIN death USING (shard, seq)
        """
    )
    if without_row:
        yield from _deaths_without_rows(tables, shards)
    if without_event:
        yield from _rows_without_deaths(tables)
    if pairs - without_event > events:
        rows = f"SELECT shard, seq, queue, {MESSAGE_KEY} FROM death"
        yield from _repeated(tables, shards, "dead_letters", rows)


def _deaths_without_rows(tables: Tables, shards: dict[int, Shard]) -> Iterator[Finding]:
    for shard, seq, kind, reason, queue, copy_id, *key in tables.values(
        f"""
        SELECT shard, seq, kind, reason, queue, copy_id, {MESSAGE_KEY}
        FROM {_DIED} ANTI JOIN death USING (shard, seq) ORDER BY ALL {_LIMIT}
        """
    ):
        why = say(
            "event %(seq)s says the copy %(kind)s (%(reason)s), but dead_letters has no row of it",
            seq=str(seq),
            kind=word(kind),
            reason=word(reason),
        )
        place = shards[shard]
        what: What = "missing dead letter"
        yield _finding(what, place, why, seq=seq, copy_id=copy_id, queue=queue, key=key)


def _rows_without_deaths(tables: Tables) -> Iterator[Clue]:
    for shard, seq, reason, queue, copy_id, *key in tables.values(
        f"""
        SELECT shard, seq, reason, queue, copy_id, {MESSAGE_KEY}
        FROM death ANTI JOIN {_DIED} USING (shard, seq) ORDER BY ALL {_LIMIT}
        """
    ):
        why = say("dead_letters has its row: the copy died (%(reason)s)", reason=word(reason))
        yield Clue(shard, why, MessageId(*key), queue, copy_id, seq)


def targets(tables: Tables) -> Iterator[Clue]:
    """Each target got a copy, or rejected it into its own dead letters; both create a copy.

    Copies held by at-least-once dead-lettering may have more targets than the row names, never
    fewer. A target may have taken its copy before the snapshot that the rows follow.
    """
    [(broken,)] = tables.values(
        """
        SELECT count(*) FROM death LEFT JOIN (
            SELECT shard, parent_copy_id AS copy_id, count(*) AS born FROM event
            WHERE copy_id = seq AND parent_copy_id IS NOT NULL GROUP BY ALL
        ) USING (shard, copy_id)
        WHERE coalesce(born, 0) < targets AND NOT (shard, copy_id) IN (
            SELECT (shard, copy_id) FROM opening WHERE state = 'held')
        """
    )
    if not broken:
        return
    for shard, seq, target, copy_id, *key in tables.values(
        f"""
        WITH named AS (
            SELECT death.*, unnest(dead_letters.targets) AS target
            FROM death JOIN shard USING (shard) JOIN dead_letters USING (vhost, lane, seq)),
        born AS (
            SELECT shard, parent_copy_id AS copy_id, queue AS target FROM event
            WHERE copy_id = seq AND parent_copy_id IS NOT NULL)
        SELECT shard, seq, target, copy_id, {MESSAGE_KEY}
        FROM named ANTI JOIN born USING (shard, copy_id, target)
        WHERE NOT (shard, copy_id) IN (SELECT (shard, copy_id) FROM opening WHERE state = 'held')
        ORDER BY ALL {_LIMIT}
        """
    ):
        why = say(
            "the death of copy %(copy)s (event %(seq)s) names queue %(target)s as a target",
            copy=str(copy_id),
            seq=str(seq),
            target=repr(target),
        )
        yield Clue(shard, why, MessageId(*key), target, None, None, seq)


def batches(tables: Tables, rows: Sequence[BatchRow], resident: int) -> Iterator[Finding]:
    """Every batch has its batch row and as many rows as that says; the copies add up.

    Args:
        resident: number of copies that are ready, unacked or held by the events.
    """
    known = {(row.query_id, row.batch_id): row.detail for row in rows}
    counts: dict[tuple[str, int], dict[str, int]] = {key: {} for key in known}
    for name, query_id, batch_id, count in tables.values("FROM batch_rows"):
        counts.setdefault((query_id, batch_id), {})[name] = count
    for (query_id, batch_id), found in sorted(counts.items()):
        detail = known.get((query_id, batch_id))
        if detail is None:
            why = say(
                "events has no row of kind batch for batch %(batch)s of query %(query)s",
                batch=str(batch_id),
                query=query_id,
            )
            yield Finding("missing batch row", None, None, why)
        else:
            yield from _counted(batch_id, detail.rows or {}, found)
    last = rows[-1] if rows else None
    latest = max(counts, key=lambda key: key[1], default=None)
    if last is not None and (last.query_id, last.batch_id) == latest:
        counted = last.detail.counted
        said = resident if counted is None else counted
        if said != resident:
            why = say(
                "the broker counted %(counted)s copies (ready, unacked or held) after batch "
                "%(batch)s, the events add up to %(added)s",
                counted=said,
                batch=str(last.batch_id),
                added=resident,
            )
            yield Finding("contradiction", None, None, why, count=abs(said - resident))


def _counted(batch_id: int, said: dict[str, int], found: dict[str, int]) -> Iterator[Finding]:
    for name in sorted({*said, *found} if said else ()):
        wrote, rows = said.get(name, 0), found.get(name, 0)
        why = say(
            "%(table)s has %(rows)s rows of batch %(batch)s, but the batch wrote %(wrote)s",
            table=name,
            rows=rows,
            batch=str(batch_id),
            wrote=wrote,
        )
        if rows < wrote:
            yield Finding("missing row", None, None, why, count=wrote - rows, table=name)
        elif rows > wrote:
            yield Finding("repeated row", None, None, why, count=rows - wrote, table=name)


def _repeated(tables: Tables, shards: dict[int, Shard], name: str, rows: str) -> Iterator[Finding]:
    """Find repeated rows; `rows` selects shard, seq, queue and message."""
    for shard, seq, queue, *key, times in tables.values(
        f"SELECT *, count(*) AS times FROM ({rows}) GROUP BY ALL HAVING times > 1 "
        f"ORDER BY ALL {_LIMIT}"
    ):
        why = say("%(table)s has %(times)s rows of it", table=name, times=times)
        place, count = shards[shard], times - 1
        yield _finding("repeated row", place, why, seq=seq, queue=queue, key=key, count=count)


def _finding(
    what: What,
    shard: Shard,
    why: str,
    *,
    key: Sequence[Any],
    seq: int | None = None,
    copy_id: int | None = None,
    queue: str | None = None,
    count: int = 1,
) -> Finding:
    """A finding about a message; `key`: the parts of its id, None if it is about no message."""
    message_id = None if key[0] is None else str(MessageId(*key))
    return Finding(what, shard.vhost, shard.lane, why, seq, copy_id, queue, message_id, count)
