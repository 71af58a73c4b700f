"""Why did a message die? What people ask first, in words, with what may be done next."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import NAME as DEAD_LETTERS
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.life.copies import CopyLife, copies_of
from streaming.queries.message_history import MessageHistory, history_of
from streaming.queries.vhosts.changes import (
    CHANGED_BEFORE,
    Change,
    changes_in,
    concerning,
    suspects,
)
from streaming.queries.vhosts.declared import Declared, declared
from topology.sentences import Sentence

MAX_CHANGES: Final = 3


class Death(msgspec.Struct, frozen=True):
    """One death.

    Attributes:
        why: in words.
        cause: in the words of the consumer that gave it up.
        targets: the queues that took the letter; none: it is lost or was dropped, see `outcome`.
        alike: how many deaths of this queue and reason are known, and since when.
    """

    queue: str
    at: str
    reason: str
    why: Sentence
    cause: str | None
    targets: list[str]
    outcome: str | None
    alike: int
    alike_since: str


class Place(msgspec.Struct, frozen=True):
    """Where a copy is now: `ready`, `unacked` or `held` in a queue."""

    queue: str
    state: str


class Why(msgspec.Struct, frozen=True):
    """The answer about one message.

    Attributes:
        ended: how copies left their queues that did not die: `acked`, `purged` and others.
        next: commands to copy, each with what it does.
        hidden: why what it holds is hidden from the user; None: it is not.
        hidden_in: the queues that the user may not read, if that is why.
    """

    message_id: str
    vhost: str
    exchange: str
    routing_key: str
    published_by: str | None
    deaths: list[Death]
    now: list[Place]
    ended: list[str]
    changes: list[Change]
    next: dict[str, str]
    hidden: str | None
    hidden_in: list[str]
    is_partial: bool


def why_of(tables: Tables, name: str) -> Why:
    """Explain a message.

    Raises:
        QueryError: no message or several messages have that name, or a table is missing.
    """
    history = history_of(tables, name)
    copies = copies_of(history)
    row = history.message or next(iter(history.deaths.values()), None) or {}
    vhost = str(row.get("vhost") or next((one["vhost"] for one in history.events), ""))
    died = [copy for copy in copies if copy.why is not None]
    deaths = [_death(tables, vhost, copy, history) for copy in died]
    return Why(
        history.message_id,
        vhost,
        str(row.get("exchange") or ""),
        str(row.get("routing_key") or ""),
        row.get("user"),
        deaths,
        [
            Place(copy.queue, history.now[copy.copy_id])
            for copy in copies
            if copy.copy_id in history.now
        ],
        sorted({copy.end for copy in copies if copy.end and copy.why is None}),
        changes_before(tables, vhost, deaths[0].queue, deaths[0].at) if deaths else [],
        _next(history, deaths),
        history.hidden,
        history.hidden_in,
        history.forgotten.events_at is not None,
    )


def changes_before(
    tables: Tables,
    vhost: str,
    queue: str,
    at: str,
    known: Mapping[str, Declared] | None = None,
) -> list[Change]:
    """The last changes that may have broken a queue in the day before an instant, latest first.

    Args:
        known: what is declared, by vhost; None: read it.
    """
    until = datetime.fromisoformat(at)
    found = changes_in(tables, until - CHANGED_BEFORE, until, vhost, [queue])
    if not found:
        return []
    chosen = [*concerning(found, vhost, queue, (known or declared(tables)).get(vhost))]
    changed = suspects(tables, chosen, queue, until - CHANGED_BEFORE, until)
    return list(islice(changed, MAX_CHANGES))


def _death(tables: Tables, vhost: str, copy: CopyLife, history: MessageHistory) -> Death:
    assert copy.why is not None
    at = copy.left_at or ""
    letter = next((one for one in history.deaths.values() if one["copy_id"] == copy.copy_id), None)
    count, since = _alike(tables, vhost, copy)
    return Death(
        copy.queue,
        at,
        copy.reason or "",
        copy.why,
        None if letter is None or history.hidden else letter.get("cause"),
        copy.targets,
        copy.outcome,
        count,
        since or at,
    )


def _alike(tables: Tables, vhost: str, copy: CopyLife) -> tuple[int, str | None]:
    """How many deaths of the same queue and reason there are, and since when."""
    if not tables.has(DEAD_LETTERS):
        return 0, None
    columns = ["vhost", "queue", "reason", "at"]
    view = tables.view(DEAD_LETTERS, columns=columns, view=tables.new_name(DEAD_LETTERS))
    [row] = tables.rows(
        f'SELECT count(*) AS deaths, min("at") AS since FROM {view} '
        "WHERE vhost = ? AND queue = ? AND reason = ?",
        [vhost, copy.queue, copy.reason],
    )
    return int(row["deaths"]), iso(row["since"])


def _next(history: MessageHistory, deaths: list[Death]) -> dict[str, str]:
    name = history.message_id
    found = {f"dlx dead-letters show {name}": "its whole life, headers and body"}
    if deaths and history.forgotten.body is None:
        found[f"dlx dead-letters redrive --id {name}"] = "plan to send it back; nothing moves yet"
    return found
