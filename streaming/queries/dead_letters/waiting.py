"""The dead letters that wait in queues: where each died, and why.

A letter waits while the copy that its death made is in a queue. One that was redriven is a message
again, and so is one that is back where it first died: a retry. The console, the metrics, the alerts
and the commands all count by this rule.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Row, Tables, iso, text
from streaming.queries.held_by_queue import HeldByQueue, held_by_queue

_COLUMNS: Final = (
    *("vhost", "lane", "copy_id", "parent_copy_id", "queue", "reason", "first_death"),
)

_SENT_AGAIN: Final = ("redriven", "republished")


class WaitingLetters(msgspec.Struct, frozen=True):
    """Letters that died in one queue for one reason, and wait in one queue.

    Attributes:
        queue: where they wait.
        died_in, reason: where and why they died last.
        first_in, first_reason: where and why they died first.
        ready: how many of them no consumer holds.
        oldest_at: since when the oldest waits.
    """

    vhost: str
    queue: str
    died_in: str
    reason: str
    first_in: str
    first_reason: str
    count: int
    ready: int
    oldest_at: str


class WaitingQueue(msgspec.Struct, frozen=True):
    """A queue in which dead letters wait, ready or unacked, and since when the oldest does."""

    vhost: str
    queue: str
    count: int
    oldest_at: str

    @property
    def oldest_s(self) -> float:
        """The same instant as epoch seconds."""
        return datetime.fromisoformat(self.oldest_at).timestamp()


def waiting_letters(tables: Tables) -> list[WaitingLetters]:
    """Count the letters that wait, by queue, where and why they died last and first; most first.

    Letters that were discarded and restored are left out: nothing near says where they died.

    Raises:
        QueryError: a table cannot be read.
    """
    letters = _prepare(tables, "JOIN")
    if letters is None:
        return []
    found = tables.rows(
        f"""
        SELECT vhost, queue, died_in, reason, coalesce(began_in, died_in) AS first_in,
               coalesce(began_for, reason) AS first_reason, sum(copies)::BIGINT AS count,
               coalesce(sum(copies) FILTER (state = 'ready'), 0)::BIGINT AS ready,
               min(first_at) AS oldest_at
        FROM (  -- grouped as they are stored: an expression for each copy takes longer
            SELECT copy.vhost, copy.queue, copy.state, death.queue AS died_in, death.reason,
                   first_death.queue AS began_in, first_death.reason AS began_for,
                   count(*) AS copies, min(enqueued_at) AS first_at
            {letters} GROUP BY ALL)
        GROUP BY ALL ORDER BY count DESC, vhost, queue, died_in, reason, first_in, first_reason
        """
    )
    return [WaitingLetters(**{**row, "oldest_at": iso(row["oldest_at"])}) for row in found]


def waiting_queues(tables: Tables) -> list[WaitingQueue]:
    """List the queues in which dead letters wait, the longest waiting first.

    Also letters of which retention removed the death, and those that were restored, are counted.

    Raises:
        QueryError: a table cannot be read.
    """
    held = [one for one in held_by_queue(tables) if one.made]
    found = []
    if held and tables.has(NAME):
        doubtful = _with_others(tables, held)
        for one in held:
            if (one.vhost, one.queue) not in doubtful:
                oldest_at = one.oldest_made_at or ""
                found.append(WaitingQueue(one.vhost, one.queue, one.made, oldest_at))
        found += _counted(tables, doubtful)
    return sorted(found, key=lambda one: (one.oldest_at, one.vhost, one.queue))


def _with_others(tables: Tables, held: Sequence[HeldByQueue]) -> frozenset[tuple[str, str]]:
    """The queues that may hold copies that a death or a redrive has made and that are no letters.

    Those in which a letter died first that may be back in it; all if a redrive has sent any.
    """
    least = min(one.least_parent for one in held if one.least_parent is not None)
    if _prepare_sent_again(tables, least):
        return frozenset((one.vhost, one.queue) for one in held)
    files = tables.files(NAME, {"copy_id": least}, inclusive=True)
    deaths = tables.view(NAME, files=files, columns=_COLUMNS, view=tables.new_name(NAME))
    listed = ", ".join(f"({text(one.vhost)}, {text(one.queue)})" for one in held)
    names = ", ".join(sorted({text(one.queue) for one in held}))  # most letters fail this, fast
    return frozenset(
        tables.values(
            f"SELECT DISTINCT vhost, first_death.queue FROM {deaths} "
            f"WHERE first_death.queue IN ({names}) AND (vhost, first_death.queue) IN ({listed})"
        )
    )


def _counted(tables: Tables, queues: Collection[tuple[str, str]]) -> list[WaitingQueue]:
    """Count the letters in some queues one by one."""
    letters = _prepare(tables, "LEFT JOIN", queues) if queues else None
    if letters is None:
        return []
    found = tables.rows(
        f"""
        SELECT copy.vhost, copy.queue, count(*) AS count, min(enqueued_at) AS oldest_at
        {letters} GROUP BY ALL
        """
    )
    return [WaitingQueue(**{**row, "oldest_at": iso(row["oldest_at"]) or ""}) for row in found]


def prepare_waiting_deaths(
    tables: Tables, queues: Collection[tuple[str, str]] | None = None
) -> str | None:
    """Create the table of the deaths of letters that a redrive can move, which are ready.

    Of a letter that died several times it has each death.

    Args:
        queues: the letters that wait in these, by vhost and name; None: in all.

    Returns:
        Its name; its columns are `vhost`, `lane`, `copy_id`, `queue`, `reason` and
        `parent_copy_id`. None: there are none.
    """
    letters = None if queues is not None and not queues else _prepare(tables, "JOIN", queues)
    if letters is None:
        return None
    among = "AND copy.state = 'ready'"
    run = tables.connection.execute
    run(
        "CREATE OR REPLACE TEMP TABLE waiting_deaths AS SELECT death.vhost, death.lane, "
        f"death.copy_id, death.queue, death.reason, death.parent_copy_id {letters} {among}"
    )
    if tables.values("SELECT 1 FROM waiting_deaths WHERE parent_copy_id IS NOT NULL LIMIT 1"):
        earlier = tables.view(NAME, columns=_COLUMNS, view=tables.new_name(NAME))
        run(
            f"""
            INSERT INTO waiting_deaths
            WITH RECURSIVE chain AS (
                FROM waiting_deaths WHERE parent_copy_id IS NOT NULL
                UNION ALL
                SELECT earlier.vhost, earlier.lane, earlier.copy_id, earlier.queue,
                       earlier.reason, earlier.parent_copy_id
                FROM chain JOIN {earlier} AS earlier ON earlier.vhost = chain.vhost
                    AND earlier.lane = chain.lane AND earlier.copy_id = chain.parent_copy_id
                WHERE NOT EXISTS (FROM sent_again AS again WHERE again.vhost = chain.vhost
                    AND again.lane = chain.lane AND again.copy_id = chain.parent_copy_id
                    AND again.seq < chain.copy_id))
            FROM chain
            """
        )
    return "waiting_deaths"


def waiting_places(
    tables: Tables, queues: Collection[tuple[str, str]] | None = None
) -> frozenset[tuple[str, str, str]]:
    """The vhost, queue and reason of these deaths."""
    deaths = prepare_waiting_deaths(tables, queues)
    if deaths is None:
        return frozenset()
    return frozenset(tables.values(f"SELECT DISTINCT vhost, queue, reason FROM {deaths}"))


def _prepare(
    tables: Tables,
    join: Literal["JOIN", "LEFT JOIN"],
    queues: Collection[tuple[str, str]] | None = None,
) -> str | None:
    """Create the tables of copies that have a parent, and of what redrives moved.

    Args:
        queues: the copies in these, by vhost and name; None: in all.

    Returns:
        Which letters wait, for a query: `copy` and, as far as it is known, `death`; None: there are
        no copies, or no deaths.
    """
    if not tables.has(NAME):
        return None
    among = ""
    if queues is not None:
        listed = ", ".join(f"({text(vhost)}, {text(queue)})" for vhost, queue in sorted(queues))
        among = f" AND (vhost, queue) IN ({listed})"
    copies = f"""(SELECT vhost, lane, copy_id, parent_copy_id, queue, state, enqueued_at
        FROM ({prepare_contents(tables)}) WHERE parent_copy_id IS NOT NULL{among})"""
    if queues is not None:  # few; all of them are read faster twice than kept
        tables.connection.execute(f"CREATE OR REPLACE TEMP TABLE waiting_copies AS {copies}")
        copies = "waiting_copies"
    [(first,)] = tables.values(f"SELECT min(parent_copy_id) FROM {copies}")
    if first is None:
        return None
    has_sent = _prepare_sent_again(tables, first)
    files = tables.files(NAME, {"copy_id": first}, inclusive=True)
    deaths = tables.view(NAME, files=files, columns=_COLUMNS, view=tables.new_name(NAME))
    if join == "LEFT JOIN":  # then only deaths matter that can make a copy no letter
        deaths = f"""(FROM {deaths} WHERE (vhost, first_death.queue) IN (
            SELECT DISTINCT (vhost, queue) FROM {copies}))"""
    was_sent, is_letter = "", "copy.queue IS DISTINCT FROM death.first_death.queue"
    if has_sent:  # joining nothing takes long, too
        was_sent = """
            LEFT JOIN sent_again AS again ON again.vhost = copy.vhost AND again.lane = copy.lane
                AND again.copy_id = copy.parent_copy_id
        """
        is_letter += " AND (again.seq IS NULL OR again.seq >= copy.copy_id)"
    return f"""
        FROM {copies} AS copy {join} {deaths} AS death ON death.vhost = copy.vhost
            AND death.lane = copy.lane AND death.copy_id = copy.parent_copy_id {was_sent}
        WHERE {is_letter}
    """


def _prepare_sent_again(tables: Tables, first: int) -> bool:
    """Create the table of the copies that redrives moved, from a number on; whether it has any."""
    files = tables.files("events", {"seq": first}, inclusive=True, kinds=_SENT_AGAIN)
    columns = ["vhost", "lane", "seq", "kind", "copy_id", "detail"]
    events = tables.view("events", files=files, columns=columns, view=tables.new_name("events"))
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE sent_again AS SELECT vhost, lane, copy_id, min(seq) AS seq "
        f"FROM {events} WHERE kind IN {_SENT_AGAIN} "
        "AND detail ->> '$.action' IS DISTINCT FROM 'restore' GROUP BY ALL"
    )
    return bool(tables.values("SELECT 1 FROM sent_again LIMIT 1"))


def deaths_before(tables: Tables, vhost: str, copies: Sequence[Row]) -> dict[int, Row]:
    """The deaths that made some copies of a vhost, as `peek` lists them.

    Returns:
        `queue`, `reason` and `at`, by the `copy_id` of the copy; those that no death made, or whose
        death retention removed, are absent.
    """
    parents = sorted({one["parent_copy_id"] for one in copies if one["parent_copy_id"] is not None})
    if not parents or not tables.has(NAME):
        return {}
    files = tables.files(NAME, {"copy_id": parents[0]}, inclusive=True)
    columns = ["vhost", "lane", "copy_id", "queue", "reason", "at"]
    view = tables.view(NAME, files=files, columns=columns, view=tables.new_name(NAME))
    found = tables.rows(
        f"""SELECT lane, copy_id, queue, reason, "at" FROM {view}
        WHERE vhost = {text(vhost)} AND copy_id IN ({", ".join(map(str, parents))})"""
    )
    deaths = {(row["lane"], row["copy_id"]): {**row, "at": iso(row["at"])} for row in found}
    return {
        one["copy_id"]: deaths[one["lane"], one["parent_copy_id"]]
        for one in copies
        if (one["lane"], one["parent_copy_id"]) in deaths
    }
