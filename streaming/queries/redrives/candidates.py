"""The letters that a redrive could move: the dead letters of a filter, and where they are now.

| letter | is | moves as |
|---|---|---|
| resting | in a queue, ready or unacked, since it died | that copy |
| gone | in no queue: no queue took it, or its last copy was acked, purged or deleted | a new copy |
| discarded | removed by a discard, and not restored since | a new copy |

Of a letter in no queue, retention may have removed what became of it: then it is gone too.

A letter that was redriven, or is back in the queue where it first died, is none of these: it is a
message again, until it dies again. A letter that died several times is found by each of its deaths:
see `streaming.queries.redrives.later_deaths`.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from streaming.broker.redrive_letters import StoredLetter
from streaming.queries.as_of.contents import EVENTS, prepare_contents
from streaming.queries.as_of.snapshots import opening_batch, opening_snapshot, snapshot_contents
from streaming.queries.dead_letters.filters import NAME, DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import MessageId, present
from streaming.queries.redrives.later_deaths import LATER, prepare_later_deaths, with_matched

Which = Literal["resting", "gone", "discarded"]

_IDS_PER_INSERT: Final = 10_000
_MOVES: Final = ("redriven", "republished")
_COLUMNS: Final = (
    *("vhost", "lane", "seq", "at", "kind", "copy_id", "parent_copy_id", "queue", "exchange"),
    *("routing_key", "detail"),
)
_CHOSEN: Final = """
    vhost, lane, seq AS death_seq, copy_id AS death_copy, "at" AS died_at, message_id,
    queue AS died_in, reason, exchange, routing_keys, x_death, first_death, last_death,
    epoch_ms(origin.timestamp) AS published_ms, headers, properties, body_bytes,
    headers ->> '$."x-redrive-id"' AS redrive,
    coalesce(TRY_CAST(headers ->> '$."x-redrive-count"' AS BIGINT), 0) AS redriven
"""
_RESTING: Final = """
    SELECT vhost, lane, copy_id, queue AS now_in, state, exchange AS now_exchange,
           routing_key AS now_key, parent_copy_id AS death_copy
    FROM redrive_contents
"""
_STATES: Final[dict[Which, str]] = {
    "resting": f"""
        {_RESTING} AS copy WHERE NOT EXISTS (
            FROM republished WHERE republished.vhost = copy.vhost AND republished.lane = copy.lane
            AND republished.copy_id = copy.parent_copy_id AND republished.seq < copy.copy_id)
        UNION ALL
        SELECT vhost, lane, copy_id, queue, state, exchange, routing_key, restored.death_copy
        FROM redrive_contents JOIN restored USING (vhost, lane, copy_id)
    """,
    "gone": """
        SELECT vhost, lane, copy_id, queue AS now_in, 'lost' AS state, exchange AS now_exchange,
               routing_key AS now_key, copy_id AS death_copy
        FROM redrive_events AS death
        WHERE kind = 'died' AND NOT EXISTS (
            FROM redrive_events AS child WHERE child.vhost = death.vhost
            AND child.lane = death.lane AND child.parent_copy_id = death.copy_id)
        UNION ALL
        SELECT vhost, lane, copy_id, birth.queue, ended.kind, birth.exchange, birth.routing_key,
               birth.death_copy
        FROM letter_births AS birth JOIN redrive_events AS ended USING (vhost, lane, copy_id)
        WHERE ended.kind IN ('acked', 'consumed', 'purged', 'deleted')
        UNION ALL FROM forgotten_letters
    """,
    "discarded": """
        SELECT vhost, lane, copy_id, birth.queue AS now_in, 'discarded' AS state,
               birth.exchange AS now_exchange, birth.routing_key AS now_key, birth.death_copy
        FROM letter_births AS birth JOIN redrive_events AS ended USING (vhost, lane, copy_id)
        WHERE ended.kind = 'discarded'
    """,
}

_RESTORED: Final = """
    CREATE OR REPLACE TEMP TABLE restored AS
    WITH RECURSIVE links AS (
        SELECT birth.vhost, birth.lane, birth.copy_id, birth.parent_copy_id AS source
        FROM redrive_events AS birth JOIN republished
            ON republished.vhost = birth.vhost AND republished.lane = birth.lane
            AND republished.copy_id = birth.parent_copy_id AND republished.seq < birth.copy_id
        WHERE birth.kind = 'enqueued' AND republished.action = 'restore'),
    chain AS (
        FROM links
        UNION ALL
        SELECT chain.vhost, chain.lane, chain.copy_id, links.source
        FROM chain JOIN links ON links.vhost = chain.vhost AND links.lane = chain.lane
            AND links.copy_id = chain.source),
    roots AS (
        SELECT vhost, lane, copy_id, min(source) AS root FROM chain GROUP BY ALL)
    SELECT roots.vhost, roots.lane, roots.copy_id, birth.parent_copy_id AS death_copy
    FROM roots JOIN redrive_events AS birth ON birth.vhost = roots.vhost
        AND birth.lane = roots.lane AND birth.copy_id = roots.root AND birth.kind = 'enqueued'
"""
"""Copies that a restore made; a letter may be discarded and restored many times."""

_OPENING: Final = """
    CREATE OR REPLACE TEMP VIEW redrive_events AS
    FROM later_redrive_events
    UNION ALL BY NAME
    SELECT vhost, lane, copy_id AS seq, enqueued_at AS "at", 'enqueued' AS kind, copy_id,
           parent_copy_id, queue, exchange, routing_key
    FROM redrive_opening ANTI JOIN later_redrive_events AS later
        ON later.vhost = redrive_opening.vhost AND later.lane = redrive_opening.lane
        AND later.copy_id = redrive_opening.copy_id AND later.seq = redrive_opening.copy_id
"""
"""The events, with the births of copies that were in queues where the events begin."""

_FORGOTTEN: Final = """
    CREATE OR REPLACE TEMP TABLE forgotten_letters AS
    SELECT vhost, lane, copy_id, coalesce(targets[1], queue) AS now_in,
           CASE WHEN len(targets) = 0 THEN 'lost' ELSE 'forgotten' END AS state,
           exchange AS now_exchange, routing_key AS now_key, copy_id AS death_copy
    FROM redrive_deaths AS death
    WHERE NOT EXISTS (FROM redrive_events AS known WHERE known.vhost = death.vhost
            AND known.lane = death.lane AND known.kind = 'died' AND known.copy_id = death.copy_id)
        AND NOT EXISTS (FROM redrive_events AS child WHERE child.vhost = death.vhost
            AND child.lane = death.lane AND child.parent_copy_id = death.copy_id)
        AND NOT EXISTS (FROM redrive_contents AS child WHERE child.vhost = death.vhost
            AND child.lane = death.lane AND child.parent_copy_id = death.copy_id)
        AND NOT EXISTS (FROM redrive_deaths AS child WHERE child.vhost = death.vhost
            AND child.lane = death.lane AND child.parent_copy_id = death.copy_id)
"""
"""Letters of which retention removed the death and all that followed: they are in no queue."""

_LETTER_BIRTHS: Final = """
    CREATE OR REPLACE TEMP VIEW letter_births AS
    SELECT vhost, lane, copy_id, queue, exchange, routing_key, parent_copy_id AS death_copy
    FROM redrive_events AS birth
    WHERE kind = 'enqueued' AND parent_copy_id IS NOT NULL AND NOT EXISTS (
        FROM republished WHERE republished.vhost = birth.vhost AND republished.lane = birth.lane
        AND republished.copy_id = birth.parent_copy_id AND republished.seq < birth.copy_id)
    UNION ALL
    SELECT vhost, lane, copy_id, birth.queue, birth.exchange, birth.routing_key,
           restored.death_copy
    FROM redrive_events AS birth JOIN restored USING (vhost, lane, copy_id)
    WHERE kind = 'enqueued'
"""
"""Each copy that a death made, or a restore."""


_SENT: Final = """
    CREATE OR REPLACE TEMP TABLE sent_deaths AS
    SELECT DISTINCT vhost, lane, birth.parent_copy_id AS death_copy
    FROM redrive_events AS birth JOIN moved AS move USING (vhost, lane, copy_id)
    WHERE birth.kind = 'enqueued' AND birth.parent_copy_id IS NOT NULL AND move.kind = 'redriven'
"""
"""Deaths of which one copy was redriven: other copies of it are of the same message."""

_NONE: Final = """
    CREATE OR REPLACE TEMP TABLE {} AS
    SELECT vhost, lane, copy_id, copy_id AS death_copy FROM moved WHERE false
"""
"""Without such a move, its table is made without reading the events."""


def candidates(tables: Tables, wanted: DeadLetterFilter, which: Which) -> list[Row]:
    """The letters of a filter in the order in which they were published.

    Each is a dead letter (`died_in`, `reason`, `x_death`, ...) with the copy that would move
    (`copy_id`, `now_in`, `state`), how often it was redriven, and whether another copy of the same
    death was (`is_sent`). Of a letter that died again after the death that matches, `died_in`,
    `reason`, `exchange` and `routing_keys` are those of that death, the rest of the last one.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    sql = f"""
        {_query(tables, wanted, which)}
        ORDER BY letter.published_ms, letter.message_id.topic_number,
                 letter.message_id."partition", letter.message_id."offset", copy.copy_id
    """
    rows = tables.rows(sql)
    marked = [row for row in rows if row["redriven"]]
    arrived = publications(tables, marked) if marked else {}
    for row in marked:
        publication = arrived.get(MessageId.of(row["message_id"]))
        if publication is not None and publication.headers.get("x-redrive-id") == row["redrive"]:
            row["redriven"] = 0  # its publisher wrote the marks
    return rows


class Counted(NamedTuple):
    """The letters of a filter, counted.

    Attributes:
        queues: the queues that they are in, and how many, by vhost.
        moving: counts those in some queues that would move.
    """

    queues: dict[str, dict[str, int]]
    moving: Callable[[Collection[str]], int]


def count_candidates(
    tables: Tables, wanted: DeadLetterFilter, which: Which, *, once: str | None
) -> Counted:
    """Count the letters of a filter.

    Args:
        once: an SQL expression; of the copies of one message with the same value one moves. None:
            each moves that is not unacked.

    Raises:
        QueryError: as `candidates`.
    """
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE counted_letters AS SELECT vhost, now_in, state, is_sent, "
        f"message_id, {once or 'NULL'} AS target FROM ({_query(tables, wanted, which)})"
    )
    queues: dict[str, dict[str, int]] = {}
    for vhost, queue, count in tables.values(
        "SELECT vhost, now_in, count(*) FROM counted_letters GROUP BY ALL"
    ):
        queues.setdefault(vhost, {})[queue] = count
    what = "count(*)"
    if once is not None:
        what = "count(DISTINCT (message_id, target)) FILTER (NOT is_sent)"

    def moving(among: Collection[str]) -> int:
        [(count,)] = tables.values(
            f"SELECT {what} FROM counted_letters WHERE state <> 'unacked' AND now_in IN ?",
            [sorted(among)],
        )
        return int(count)

    return Counted(queues, moving)


def _query(tables: Tables, wanted: DeadLetterFilter, which: Which) -> str:
    """Prepare and return the query of the letters of a filter."""
    selection = Selection(tables, wanted)
    letters = selection.query(_CHOSEN)
    moved = _prepare(tables, which, selection)
    if moved.again:
        letters = with_matched(tables, letters, _CHOSEN)
    once = "" if which == "resting" else "ANTI JOIN republished USING (vhost, lane, copy_id)"
    stored = "" if which == "resting" else _stored(tables)
    copies = _STATES[which]
    if which == "resting" and not moved.republished:  # joining nothing takes long, too
        copies = _RESTING
    is_sent = "(vhost, lane, death_copy) IN (FROM sent_deaths SELECT (vhost, lane, death_copy))"
    return f"""
        SELECT letter.*, copy.copy_id, copy.now_in, copy.state, copy.now_exchange, copy.now_key,
               {is_sent if moved.redriven else "false"} AS is_sent
        FROM ({letters}) AS letter
        JOIN (FROM ({copies}) {once}) AS copy USING (vhost, lane, death_copy)
        {stored}
        WHERE copy.state = 'lost' OR copy.now_in IS DISTINCT FROM letter.first_death.queue
    """


class LetterPublication(NamedTuple):
    """How a message was published; `headers` are typed JSON."""

    exchange: str
    routing_key: str
    headers: dict[str, Any]


def publications(tables: Tables, rows: list[Row]) -> dict[MessageId | None, LetterPublication]:
    """The publishes of letters whose messages are still stored."""
    columns = ["topic_number", "partition", "offset", "exchange", "routing_key", "headers"]
    tables.view("messages", columns=columns, view="letter_messages")
    ids = sorted({id_ for row in rows if (id_ := MessageId.of(row["message_id"])) is not None})
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE letter_ids (topic_number INT, part INT, at_offset BIGINT)"
    )
    for first in range(0, len(ids), _IDS_PER_INSERT):
        values = ", ".join(str(tuple(one)) for one in ids[first : first + _IDS_PER_INSERT])
        tables.connection.execute(f"INSERT INTO letter_ids VALUES {values}")
    found = tables.values(
        """
        SELECT letter_messages.topic_number, part, at_offset, exchange, routing_key, headers
        FROM letter_messages JOIN letter_ids
            ON letter_ids.topic_number = letter_messages.topic_number
            AND part = "partition" AND at_offset = "offset"
        """
    )
    return {
        MessageId(*key): LetterPublication(
            exchange or "", routing_key or "", msgspec.json.decode(headers or "{}")
        )
        for *key, exchange, routing_key, headers in found
    }


def _stored(tables: Tables) -> str:
    """Join the messages that are still stored: others were removed by retention, or erased."""
    columns = ["topic_number", "partition", "offset"]
    erased = ""
    if tables.values("SELECT 1 FROM redrive_events WHERE kind = 'erased' LIMIT 1"):
        columns += ["body_bytes", "body"]  # bodies are read only if some may be missing
        erased = "AND (redrive_messages.body IS NOT NULL OR redrive_messages.body_bytes = 0)"
    tables.view("messages", columns=columns, view="redrive_messages")
    return f"""
        SEMI JOIN redrive_messages ON redrive_messages.topic_number = letter.message_id.topic_number
            AND redrive_messages."partition" = letter.message_id."partition"
            AND redrive_messages."offset" = letter.message_id."offset"
            {erased}
    """


class _Moved(NamedTuple):
    """What happened to letters.

    Attributes:
        again: whether any of these died again after the death that matches.
        redriven, republished: whether a redrive ever moved any, and as which kind of event.
    """

    again: bool
    redriven: bool
    republished: bool


def _prepare(tables: Tables, which: Which, selection: Selection) -> _Moved:
    """Create the tables of events and of earlier moves, and what these letters need besides."""
    run = tables.connection.execute
    _prepare_events(tables)
    files = tables.files(EVENTS, kinds=_MOVES)
    columns = ["vhost", "lane", "copy_id", "seq", "kind", "detail"]
    tables.view(EVENTS, files=files, columns=columns, view="redrive_moves")
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE moved AS
        SELECT vhost, lane, copy_id, seq, kind, detail ->> '$.action' AS action
        FROM redrive_moves WHERE kind IN {_MOVES}
        """
    )
    run(
        "CREATE OR REPLACE TEMP TABLE republished AS "
        "SELECT * EXCLUDE kind FROM moved WHERE kind = 'republished'"
    )
    was_moved = dict(tables.values("SELECT kind, count(*) FROM moved GROUP BY kind"))
    run(_RESTORED if was_moved.get("republished") else _NONE.format("restored"))
    run(_SENT if was_moved.get("redriven") else _NONE.format("sent_deaths"))
    run(_LETTER_BIRTHS)
    selection.create("chosen_deaths", "vhost, lane, copy_id AS parent_copy_id")
    has_later = prepare_later_deaths(tables)
    if which != "discarded":
        kind, parents = "TABLE", "parent_copy_id IS NOT NULL"
        if which == "resting" and not was_moved.get("republished"):
            kind, parents = "VIEW", _parents(tables)  # read once, and only what the letters need
        copies = (
            "SELECT vhost, lane, copy_id, parent_copy_id, queue, state, exchange, routing_key "
            f"FROM ({prepare_contents(tables)}) WHERE {parents}"
        )
        tables.drop("redrive_contents")
        run(f"CREATE TEMP {kind} redrive_contents AS {copies}")
    if which == "gone":
        columns = ["vhost", "lane", "copy_id", "parent_copy_id", "queue", "exchange"]
        columns += ["routing_key", "targets"]
        none: list[str] | None = None if opening_batch(tables, EVENTS) >= 0 else []
        tables.view(NAME, columns=columns, files=none, view="redrive_deaths")
        run(_FORGOTTEN)
    return _Moved(has_later, "redriven" in was_moved, "republished" in was_moved)


def _parents(tables: Tables) -> str:
    """A condition for the copies of the chosen letters, and some others: Parquet skips by it."""
    [(least, most)] = tables.values(
        "SELECT min(copy_id), max(copy_id) FROM (SELECT parent_copy_id AS copy_id "
        f"FROM chosen_deaths UNION ALL SELECT copy_id FROM {LATER})"
    )
    return "false" if least is None else f"parent_copy_id BETWEEN {least} AND {most}"


def _prepare_events(tables: Tables) -> None:
    snapshot = opening_snapshot(tables, EVENTS)
    if snapshot is None:
        tables.view(EVENTS, columns=_COLUMNS, view="redrive_events")
        return
    tables.view(EVENTS, columns=_COLUMNS, view="later_redrive_events")
    run = tables.connection.execute
    copies = snapshot_contents(tables, snapshot)
    run(f"CREATE OR REPLACE TEMP TABLE redrive_opening AS FROM {copies}")
    tables.drop("redrive_events")
    run(_OPENING)


def stored_letter(row: Row) -> StoredLetter:
    """A letter with all that publishes it again."""
    message = row["message_id"]
    properties = present(row["properties"])
    return StoredLetter(
        (message["topic_number"], message["partition"], message["offset"]),
        row["body_bytes"] or 0,
        max(properties.get("priority", 0), 0),
        row["headers"],
        tuple(_deaths(row)),
        _note(row["first_death"]),
        _note(row["last_death"]),
    )


def _deaths(row: Row) -> list[tuple[int, str, str, int, str, tuple[str, ...], str | None]]:
    return [
        (
            max(death["count"] or 0, 0),
            death["reason"] or "",
            death["queue"] or "",
            _seconds(death["time"]),
            death["exchange"] or "",
            tuple(death["routing_keys"] or ()),
            death["original_expiration"],
        )
        for death in row["x_death"] or []
    ]


def _seconds(instant: str | None) -> int:
    return (
        0 if instant is None else int(datetime.fromisoformat(f"{instant[:19]}+00:00").timestamp())
    )


def _note(note: dict[str, str] | None) -> tuple[str, str, str] | None:
    if note is None or note["reason"] is None:
        return None
    return note["reason"], note["queue"], note["exchange"]


def overtaken(
    tables: Tables, key: str, rows: Sequence[Row]
) -> dict[tuple[str, int, str, str | None], int]:
    """The last copy acknowledged after these letters died: by vhost, lane, queue and key.

    Args:
        key: `routing_key`, or `header:NAME`.
        rows: the letters, as `candidates` returns them.
    """
    expression, join = "routing_key", ""
    first = min((row["death_copy"] for row in rows), default=0)  # events have later numbers
    header: list[str] = []
    tables.view("events", columns=[*_COLUMNS, "message_id"], view="acked_events")
    if key.startswith("header:"):
        tables.view("messages", columns=["topic_number", "partition", "offset", "headers"])
        name = key.removeprefix("header:").replace('"', '\\"')
        expression = "headers ->> ?"
        header = [f'$."{name}"']
        join = """
            JOIN messages ON topic_number = message_id.topic_number
            AND messages."partition" = message_id."partition"
            AND messages."offset" = message_id."offset"
        """
    found = tables.values(
        f"""
        SELECT acked_events.vhost, acked_events.lane, queue, {expression} AS key, max(copy_id)
        FROM acked_events {join}
        WHERE kind IN ('acked', 'consumed') AND queue IN ? AND seq > ? GROUP BY ALL
        """,
        [*header, sorted({row["died_in"] for row in rows}), first],
    )
    return {(vhost, lane, queue, value): last for vhost, lane, queue, value, last in found}
