"""Find missing events: every shard numbers its events 1, 2, 3, ... without gaps.

The rows may begin after a snapshot; then the numbers begin after those of the snapshot.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from streaming.ledger.batch_detail import BatchRow
from streaming.queries.audit.ledger_rows import MESSAGE_KEY, NO_SHARD, Shard
from streaming.queries.audit.unexplained import MAX_NAMED, Clue, Finding, Gap, event_about, word
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from topology.sentences import joined, say

_MAX_BITSTRING: Final = 1_000_000_000


def find_gaps(
    tables: Tables,
    batches: Sequence[BatchRow],
    shards: Mapping[int, Shard],
    closed: Mapping[Shard, int],
) -> tuple[list[Gap], list[Finding]]:
    """The missing and the repeated numbers of every shard.

    Args:
        closed: the last number of each shard before the first row.
    """
    starts = {number: closed.get(shard, 0) for number, shard in shards.items()}
    ends = _last_seqs(tables, batches, shards, starts)
    if all(end == starts[shard] for shard, end in ends.items()):
        return [], []
    first, last = min(starts[shard] for shard in ends), max(ends.values())
    distinct = (
        f"bit_count(bitstring_agg(seq, {first}, {last}))"
        if last - first < _MAX_BITSTRING
        else "count(DISTINCT seq)"
    )
    found = {
        shard: (rows, numbers)
        for shard, rows, numbers in tables.values(
            f"SELECT shard, count(*), {distinct} FROM event GROUP BY shard"
        )
    }
    gaps: list[Gap] = []
    repeated: list[Finding] = []
    for shard, end in ends.items():
        rows, numbers = found.get(shard, (0, 0))
        if numbers != end - starts[shard]:
            gaps += _gaps(tables, shard, starts[shard], end)
        if rows != numbers:
            repeated += _repeated(tables, shard, shards[shard])
    return gaps, repeated


def _last_seqs(
    tables: Tables,
    batches: Sequence[BatchRow],
    shards: Mapping[int, Shard],
    starts: Mapping[int, int],
) -> dict[int, int]:
    """The highest known number of each shard, in any row that mentions one."""
    ends = {shard: starts[shard] for shard in shards if shard != NO_SHARD}
    mentioned = tables.values(
        """
        SELECT shard, max(seq) FROM event GROUP BY shard
        UNION ALL SELECT shard, max(seq) FROM death GROUP BY shard
        """
    )
    numbers = {shard: number for number, shard in shards.items()}
    said = [
        (numbers[Shard(vhost, lane)], seq)
        for row in batches
        for vhost, lane, seq in row.detail.last_seq
    ]
    for shard, seq in (*mentioned, *said):
        if shard in ends:
            ends[shard] = max(ends[shard], seq)
    return ends


def _gaps(tables: Tables, shard: int, start: int, end: int) -> list[Gap]:
    found = tables.values(
        """
        SELECT before + 1, seq - 1
        FROM (SELECT seq, lag(seq, 1, CAST(? AS BIGINT)) OVER (ORDER BY seq) AS before
              FROM (SELECT DISTINCT seq FROM event WHERE shard = ? UNION ALL SELECT ? + 1))
        WHERE seq > before + 1 ORDER BY seq
        """,
        [start, shard, end],
    )
    return [
        Gap(shard, first, last, _neighbours(tables, shard, first, last)) for first, last in found
    ]


def _neighbours(tables: Tables, shard: int, first: int, last: int) -> str:
    found = tables.values(
        f"""
        SELECT seq, kind, queue, batch_id, topic_number, "partition", "offset" FROM event
        WHERE shard = ? AND seq IN ({first - 1}, {last + 1}) ORDER BY seq
        """,
        [shard],
    )
    sides = []
    for seq, kind, queue, batch_id, *key in found:
        told = [word(kind)]
        if key[0] is not None:
            told.append(say("message %(id)s", id=str(MessageId(*key))))
        if queue:
            told.append(say("queue %(name)s", name=repr(queue)))
        told.append(say("batch %(batch)s", batch=str(batch_id)))
        sides.append(say("%(seq)s (%(event)s)", seq=str(seq), event=joined(told, ", ")))
    numbers = str(first)
    if first != last:
        numbers = say("%(first)s to %(last)s", first=numbers, last=str(last))
    match sides:
        case [before, after]:
            return say(
                "no event has number %(numbers)s, between %(before)s and %(after)s",
                numbers=numbers,
                before=before,
                after=after,
            )
        case [one] if first == 1:
            return say(
                "no event has number %(numbers)s, before %(after)s", numbers=numbers, after=one
            )
        case [one]:
            return say(
                "no event has number %(numbers)s, after %(before)s, the last event",
                numbers=numbers,
                before=one,
            )
        case _:
            return say("no event has number %(numbers)s", numbers=numbers)


def _repeated(tables: Tables, shard: int, place: Shard) -> list[Finding]:
    found = tables.values(
        f"""
        SELECT seq, any_value(kind), any_value(queue), count(*) - 1,
               any_value(topic_number), any_value("partition"), any_value("offset")
        FROM event WHERE shard = ? GROUP BY seq HAVING count(*) > 1 ORDER BY seq LIMIT {MAX_NAMED}
        """,
        [shard],
    )
    return [
        Finding(
            "repeated row",
            *place,
            say(
                "events has %(rows)s rows with number %(seq)s (%(kind)s)",
                rows=more + 1,
                seq=str(seq),
                kind=word(kind),
            ),
            seq,
            queue=queue,
            message_id=None if key[0] is None else str(MessageId(*key)),
            count=more,
        )
        for seq, kind, queue, more, *key in found
    ]


def clues_of_gaps(tables: Tables, gaps: Sequence[Gap]) -> list[Clue]:
    """The clues that name a missing number exactly."""
    if not gaps:
        return []
    run = tables.connection.execute
    run("CREATE OR REPLACE TEMP TABLE gap (shard SMALLINT, first BIGINT, last BIGINT)")
    tables.connection.executemany(
        "INSERT INTO gap VALUES (?, ?, ?)", [[gap.shard, gap.first, gap.last] for gap in gaps]
    )
    inside = "JOIN gap ON one.shard = gap.shard AND one.{} BETWEEN gap.first AND gap.last"
    found = tables.values(
        f"""
        SELECT one.shard, copy_id, 1, min_by(queue, seq), min_by(kind, seq), min(seq),
               {", ".join(f"any_value({part})" for part in MESSAGE_KEY.split(", "))}
        FROM event AS one {inside.format("copy_id")} GROUP BY one.shard, copy_id
        UNION ALL
        SELECT one.shard, seq, 2, queue, reason, copy_id, {MESSAGE_KEY}
        FROM death AS one {inside.format("seq")}
        UNION ALL
        SELECT one.shard, copy_id, 3, queue, reason, seq, {MESSAGE_KEY}
        FROM death AS one {inside.format("copy_id")}
        UNION ALL
        SELECT one.shard, parent_copy_id, 4, NULL, kind, seq, {MESSAGE_KEY}
        FROM event AS one {inside.format("parent_copy_id")} WHERE copy_id = seq
        ORDER BY ALL LIMIT {MAX_NAMED}
        """
    )
    clues = []
    for shard, missing, witness, queue, said, number, *parts in found:
        copy_id = missing
        match witness:
            case 1:
                why = event_about(number, said)
            case 2:
                copy_id = number
                why = say("dead_letters has its row: the copy died (%(reason)s)", reason=word(said))
            case 3:
                why = say(
                    "event %(seq)s is the death (%(reason)s) of the copy that it enqueued",
                    seq=str(number),
                    reason=word(said),
                )
            case _:
                why = say(
                    "copy %(copy)s came from the death of the copy that it enqueued",
                    copy=str(number),
                )
        clues.append(Clue(shard, why, MessageId(*parts), queue, copy_id, missing))
    return clues
