"""What is in the queues, now or at a cut: stored rows, updated by later events.

    queue_contents or a snapshot (as of batch n)  +  events of the batches after n  -->  the queues

A copy enters with its `enqueued` event and leaves with its first ending. In between, `delivered`
and `requeued` move it from ready to unacked and back. Copies held by at-least-once dead-lettering
are in no queue, so `held` counts as an ending, unless everything is asked for that the broker has
to know (`whole`): then held copies are there too, and each row has the columns of a snapshot.

| temporary table | a row is |
|---|---|
| `moves` | an event of a copy in the batches after n: its key, kind and number |
| `gone` | a copy that left its queue |
| `born` | a copy that entered a queue and is still in it; a view, which reads the columns in use |
| `changed` | a copy that was delivered or requeued and is still in its queue |
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streaming.broker.events import ENDINGS, Kind
from streaming.queries.as_of.snapshots import OF_BROKER, snapshot_before, snapshot_contents
from streaming.queries.duckdb_tables import Tables, text

CONTENTS: Final = "queue_contents"
EVENTS: Final = "events"
_MOVED: Final = "moved_events"
"""The view that `born` reads; no other question replaces it."""

NEVER_APPLIED: Final = -1
"""Value of `Progress.as_of` if no batch is applied; batches count from 0."""

_BATCH_FILE: Final = re.compile(r"(?P<query_id>[A-Za-z0-9-]{1,64})\.\d{12,19}\.[a-z]")
_COLUMNS: Final = (
    "query_id",
    "batch_id",
    "vhost",
    "lane",
    "seq",
    "at",
    "kind",
    "message_id",
    "copy_id",
    "parent_copy_id",
    "queue",
    "position",
    "reason",
    "expires_at",
    "body_bytes",
    "exchange",
    "routing_key",
    "user",
    "channel",
)
_KEY: Final = "vhost, lane, copy_id"
HELD: Final = Kind.HELD.name.lower()
"""The kind of the event that says that a copy is held."""

_ENDINGS: Final = sorted(kind.name.lower() for kind in ENDINGS)
SQL_ENDINGS: Final = f"({', '.join(map(text, _ENDINGS))})"
"""The kinds of the events that end a copy's life in its queue, as a list of SQL."""

LEAVING: Final = sorted([*_ENDINGS, HELD])
"""The kinds of events with which a copy leaves its queue, if it is in it: see `crossings`."""

_LATEST: Final = {
    "delivered_seq": (("delivered", HELD), "latest.seq"),
    "delivered_at": (("delivered",), 'latest."at"'),
    "reason": ((HELD,), "latest.reason"),
    "held_at": ((HELD,), 'latest."at"'),
    "cause": ((HELD,), "latest.cause"),
}
"""The columns of a copy that its latest event tells, and no event of another kind than these."""

_MOVES: Final = sorted({*LEAVING, "enqueued", "delivered", "requeued"})


class Progress(NamedTuple):
    """How many of a query's batches are applied to `queue_contents`.

    Attributes:
        as_of: the last applied batch; NEVER_APPLIED if there is none.
        last: the last batch in `events`.
    """

    query_id: str
    as_of: int
    last: int


class Moves(NamedTuple):
    """What `collect_moves` has found.

    Attributes:
        least_changed: the least number of a copy in `changed`; None: it is empty.
        has_gone, has_born: whether a copy left, or entered.
    """

    least_changed: int | None
    has_gone: bool
    has_born: bool


def query_ids(tables: Tables) -> list[str]:
    """The queries that have written events: one, unless a checkpoint was abandoned.

    The names of batch files contain the query; only compacted files must be read.
    """
    found = set()
    others = []
    for file in tables.files(EVENTS):
        of_a_batch = _BATCH_FILE.match(file)
        if of_a_batch is None:
            others.append(file)
        else:
            found.add(of_a_batch["query_id"])
    if others:
        tables.view(EVENTS, files=others, columns=["query_id"], view="compacted")
        found.update(one for (one,) in tables.values("SELECT DISTINCT query_id FROM compacted"))
    return sorted(found)


def progress(tables: Tables, queries: Iterable[str] | None = None) -> list[Progress]:
    """The progress of `queue_contents`, by query.

    The contents are loaded before the events, so they are never ahead of them.
    """
    contents = tables.table(CONTENTS) if tables.has(CONTENTS) else None
    events = tables.table(EVENTS)
    found = []
    for query_id in query_ids(tables) if queries is None else queries:
        last = events.transaction_version(query_id)
        if last is None:  # another tool rewrote the table: read the rows
            last = _last_batch(tables, query_id)
        as_of = None if contents is None else contents.transaction_version(query_id)
        found.append(Progress(query_id, NEVER_APPLIED if as_of is None else as_of, last))
    return found


def _last_batch(tables: Tables, query_id: str) -> int:
    tables.view(EVENTS, columns=["query_id", "batch_id"], view="batches")
    [(last,)] = tables.values("SELECT max(batch_id) FROM batches WHERE query_id = ?", [query_id])
    return NEVER_APPLIED if last is None else int(last)


def collect_moves(tables: Tables, behind: Sequence[Progress], *, whole: bool = False) -> Moves:
    """Create the temporary tables of the events that are not applied yet, unless they are there.

    Args:
        whole: whether a held copy is still there.
    """
    wanted = (tuple(behind), whole, tables.cut, tables.vhosts)
    if tables.collected is not None and tables.collected[0] == wanted:
        known: Moves = tables.collected[1]
        return known
    tables.collected = None
    least = min((one.as_of for one in behind), default=NEVER_APPLIED)
    files = tables.files(EVENTS, {"batch_id": least})
    columns = (*_COLUMNS, "envelope", "detail") if whole else _COLUMNS
    tables.view(EVENTS, files=files, columns=columns, view=_MOVED)
    since = _since(behind)
    moves = ", ".join(text(kind) for kind in _MOVES)
    leaving = ", ".join(text(kind) for kind in (_ENDINGS if whole else LEAVING))
    moving = ", ".join(map(text, ("delivered", "requeued", *((HELD,) if whole else ()))))
    cause = ", 'seq': seq, 'cause': detail ->> '$.cause'" if whole else ""
    run = tables.connection.execute
    run(  # narrow, and read once
        f"CREATE OR REPLACE TEMP TABLE moves AS SELECT {_KEY}, seq, kind FROM {_MOVED} "
        f"WHERE {since} AND kind IN ({moves})"
    )
    run(
        f"CREATE OR REPLACE TEMP TABLE gone AS SELECT {_KEY} FROM moves "
        f"WHERE kind IN ({leaving}) AND copy_id <> seq"
    )
    least_changed: int | None
    [(first_born, last_born, first, last, least_changed, has_gone)] = tables.values(
        f"""
        SELECT coalesce(min(seq) FILTER (kind = 'enqueued'), 0),
               coalesce(max(seq) FILTER (kind = 'enqueued'), -1),
               coalesce(min(seq) FILTER (kind IN ({moving})), 0),
               coalesce(max(seq) FILTER (kind IN ({moving})), -1),
               min(copy_id) FILTER (kind IN ({moving})),
               EXISTS (FROM gone)
        FROM moves ANTI JOIN gone USING ({_KEY})
        """
    )
    run(  # a range of numbers lets Parquet skip row groups; a join would not
        f"CREATE OR REPLACE TEMP VIEW born AS FROM {_MOVED} ANTI JOIN gone USING ({_KEY}) "
        f"WHERE kind = 'enqueued' AND seq BETWEEN {first_born} AND {last_born} AND {since}"
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE changed AS
        SELECT {_KEY},
               count(*) FILTER (WHERE kind = 'requeued') AS returns,
               arg_max("position", seq) FILTER (WHERE kind = 'requeued') AS "position",
               arg_max({{'kind': kind, 'batch_id': batch_id, 'user': "user",
                         'channel': channel, 'reason': reason, 'at': "at"{cause}}}, seq) AS latest
        FROM {_MOVED} ANTI JOIN gone USING ({_KEY})
        WHERE {since} AND kind IN ({moving}) AND seq BETWEEN {first} AND {last}
        GROUP BY {_KEY}
        """
    )
    found = Moves(least_changed, bool(has_gone), has_born=first_born <= last_born)
    tables.collected = (wanted, found)
    return found


def _since(behind: Sequence[Progress]) -> str:
    """A condition for the rows of batches not applied yet; cheap for a single query."""
    match behind:
        case [Progress(as_of=-1)]:
            return "true"
        case [Progress(as_of=as_of)]:
            return f"batch_id > {as_of}"
        case _:
            parts = [
                f"query_id = {text(one.query_id)} AND batch_id > {one.as_of}" for one in behind
            ]
            return f"({' OR '.join(parts) or 'false'})"


def current_contents(stored: str | None, moves: Moves, *, whole: bool = False) -> str:
    """A query for the current rows of `queue_contents`, after `collect_moves`.

    Args:
        stored: a view of all or some rows as of batch n; None: there are none.
        moves: what `collect_moves` returned.
        whole: whether everything is wanted that the broker has to know.
    """
    more = nothing = ""
    if whole:
        more = "".join(
            f""", CASE WHEN latest.kind IN ({", ".join(map(text, kinds))}) THEN {value}
                WHEN latest.kind IS NULL THEN known.{column} END AS {column}"""
            for column, (kinds, value) in _LATEST.items()
        )
        nothing = "".join(
            f", {column}" if column == "envelope" else f", CAST(NULL AS {kind}) AS {column}"
            for column, kind in OF_BROKER.items()
        )
    born = f"""
        SELECT query_id, batch_id, vhost, lane, copy_id, parent_copy_id, message_id, queue,
               'ready' AS state, "position", "at" AS enqueued_at, expires_at, exchange, routing_key,
               CAST(0 AS BIGINT) AS returns, body_bytes,
               CAST(NULL AS VARCHAR) AS "user", CAST(NULL AS VARCHAR) AS channel{nothing}
        FROM born
    """
    if stored is None:
        copies = born
    else:  # most copies: joining nothing takes long, too
        copies = f"FROM {stored} {f'ANTI JOIN gone USING ({_KEY})' if moves.has_gone else ''}"
        copies += f" UNION ALL BY NAME {born}" if moves.has_born else ""
    least_changed = moves.least_changed
    if least_changed is None:
        return copies
    return f"""
        FROM ({copies}) WHERE copy_id < {least_changed}  -- most copies, without the join
        UNION ALL BY NAME
        SELECT known.* REPLACE (
            coalesce(latest.batch_id, known.batch_id) AS batch_id,
            CASE latest.kind WHEN 'delivered' THEN 'unacked' WHEN 'requeued' THEN 'ready'
                WHEN 'held' THEN 'held' ELSE known.state END AS state,
            coalesce(changed."position", known."position") AS "position",
            known.returns + coalesce(changed.returns, 0) AS returns,
            CASE WHEN latest.kind = 'delivered' THEN latest."user"
                WHEN latest.kind IN ('requeued', 'held') THEN NULL ELSE known."user" END AS "user",
            CASE WHEN latest.kind = 'delivered' THEN latest.channel
                WHEN latest.kind IN ('requeued', 'held') THEN NULL
                ELSE known.channel END AS channel{more})
        FROM (FROM ({copies}) WHERE copy_id >= {least_changed}) AS known
            LEFT JOIN changed USING ({_KEY})
    """


def prepare_contents(tables: Tables, *, whole: bool = False) -> str:
    """Prepare a query of what is in the queues at the last batch, or at the cut.

    Args:
        whole: whether everything is wanted that the broker has to know: also copies held by
            at-least-once dead-lettering, with the columns of `snapshot_contents`.

    Returns:
        The query: rows as in `queue_contents`, even if that table is behind or missing.

    Raises:
        QueryError: the cut lies before everything that the tables still know.
    """
    behind = progress(tables)
    is_current = bool(behind) and all(one.as_of != NEVER_APPLIED for one in behind)
    if tables.cut is None and not whole and is_current:
        if all(one.as_of >= one.last for one in behind):
            return f"FROM {tables.view(CONTENTS)}"
        return current_contents(tables.view(CONTENTS), collect_moves(tables, behind))
    snapshot = snapshot_before(tables)
    as_of = NEVER_APPLIED if snapshot is None else snapshot.batch_id
    behind = [one._replace(as_of=as_of) for one in behind]
    moves = collect_moves(tables, behind, whole=whole)
    stored = None if snapshot is None else snapshot_contents(tables, snapshot, held=whole)
    if not whole:
        return current_contents(stored, moves)
    _collect_accepted(tables, stored, as_of)
    return f"""
        SELECT copy.* REPLACE (CASE copy.state WHEN 'held' THEN
            list_concat(copy.accepted, children.accepted) END AS accepted)
        FROM ({current_contents(stored, moves, whole=True)}) AS copy
        LEFT JOIN children USING ({_KEY})
    """


def _collect_accepted(tables: Tables, stored: str | None, as_of: int) -> None:
    """Create the table of the targets that got the dead letters of held copies since a batch."""
    before = (
        f" UNION ALL SELECT (vhost, lane, copy_id) FROM {stored} WHERE state = '{HELD}'"
        if stored
        else ""
    )
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE children AS
        SELECT vhost, lane, parent_copy_id AS copy_id, list(queue ORDER BY seq) AS accepted
        FROM {_MOVED} WHERE kind = 'enqueued' AND parent_copy_id IS NOT NULL
        AND batch_id > {as_of} AND (vhost, lane, parent_copy_id) IN (
            SELECT (vhost, lane, copy_id) FROM changed WHERE latest.kind = '{HELD}'{before})
        GROUP BY ALL
        """
    )
