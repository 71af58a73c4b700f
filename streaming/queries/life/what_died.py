"""What died in a span, where, why in words, since when, and compared with the span before.

    deaths by queue and reason --> who rejected, the TTL, the limit and the rates --> words
                               --> when they began, which may be before the span
                               --> the last change that concerns the queue, before they began
                               --> what has ended them, and since when

The worst come first: what is lost, then what died after a change, then what dies in numbers. What a
queue drops as it was declared to, such as the head of a full queue without a dead-letter exchange,
comes last.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from streaming.queries.as_of.instant import at_time, last_batch
from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso, text
from streaming.queries.ends import IS_DROPPED, IS_LOST
from streaming.queries.life.death_words import Limits, of_a_queue
from streaming.queries.life.repaired import Ended, Repair, repairs
from streaming.queries.recent_deaths import recent_deaths
from streaming.queries.vhosts.changes import (
    CHANGED_BEFORE,
    MAX_READ,
    Change,
    Recorded,
    changes_in,
    concerning,
    suspects,
)
from streaming.queries.vhosts.declared import Declared
from streaming.queries.vhosts.declared import declared as declared_in
from topology.policies import QueueSettings

MAX_GROUPS: Final = 10

STILL: Final = timedelta(minutes=1)
"""Deaths of which the last was longer ago have stopped."""

QUIET: Final = timedelta(minutes=10)
"""Deaths that began before the span go on in it if they never paused for longer."""

RATE_S: Final = 60
"""The rates of a full queue are those while messages died, but of the last seconds at most."""

_EVENTS: Final = ("vhost", "queue", "kind", "reason", "user", "at")
_TAKEN: Final = ("acked", "consumed")
_MOVING: Final = ("enqueued", *_TAKEN)
_DEATHS: Final = ("died", "held")
_OF_SETTINGS: Final = ("queue", "policy", "operator_policy")


Keep = Callable[[str, Callable[[], Mapping[str, Declared]]], Mapping[str, Declared]]
"""Returns what a function computes, or has computed under that name before."""


def _afresh(_name: str, compute: Callable[[], Mapping[str, Declared]]) -> Mapping[str, Declared]:
    return compute()


class DeathGroup(msgspec.Struct, frozen=True):
    """The deaths of one queue for one reason.

    Attributes:
        deaths, before: in the span, and in the span of the same length before it.
        lost: those of them whose letter reached no queue that was meant to take it.
        is_declared: whether they are how the queue is meant to work: what it drops goes nowhere.
        since, last: when they began, at most a span before the span, and the last.
        is_older: whether they had begun even earlier.
        why: in words.
        cause: the most frequent, in the words of a consumer.
        change: the last one that may have broken the queue, in the day before they began.
        repair: what has ended them; None: they go on, or nobody knows.
    """

    vhost: str
    queue: str
    reason: str
    deaths: int
    before: int
    lost: int
    is_declared: bool
    since: str
    last: str
    why: str
    cause: str | None
    change: Change | None
    repair: Repair | None = None
    is_older: bool = False


def what_died(
    tables: Tables,
    declared: Mapping[str, Declared],
    end: datetime,
    span: timedelta,
    *,
    vhost: str | None = None,
    keep: Keep = _afresh,
) -> list[DeathGroup]:
    """List the largest groups of deaths of a span, the worst first.

    Args:
        declared: what is declared, by vhost. The limits in words are those at the last death.
        end: the end of the span.
        vhost: list its deaths only.
        keep: remembers what was declared at an instant.
    """
    begin = end - span
    counts, letters = recent_deaths(tables, end, span)
    rows = tables.rows(
        f"""
        SELECT vhost, queue, reason, sum(deaths) FILTER (is_new)::BIGINT AS deaths,
               coalesce(sum(deaths) FILTER (NOT is_new), 0)::BIGINT AS before,
               coalesce(sum(deaths) FILTER (is_new AND {IS_LOST}), 0)::BIGINT AS lost,
               bool_and(coalesce({IS_DROPPED}, false)) AS is_declared,
               min("first") FILTER (is_new) AS since, max("last") AS last
        FROM {counts} WHERE {"true" if vhost is None else f"vhost = {text(vhost)}"}
        GROUP BY vhost, queue, reason HAVING deaths > 0
        ORDER BY lost DESC, is_declared, deaths DESC, vhost, queue, reason
        LIMIT {MAX_GROUPS}
        """
    )
    if not rows:
        return []
    users = _rejecting(tables, begin, end)
    rates = _rates(tables, [row for row in rows if row["reason"] == "maxlen"])
    causes = _causes(tables, letters, begin, end)
    begun = _begun(tables, counts, rows, begin - span)
    first = min(since for since, _is_older in begun)
    queues = {row["queue"] for row in rows}
    recorded = changes_in(tables, first - CHANGED_BEFORE, end, vhost, queues)
    moments = _moments(recorded, [datetime.fromisoformat(iso(row["last"]) or "") for row in rows])
    groups = []
    ended = []
    for row, (before, is_older) in zip(rows, begun, strict=True):
        place = (row["vhost"], row["queue"])
        last = iso(row["last"]) or ""
        chosen = [*concerning(recorded, *place, declared.get(place[0]))]
        changed = suspects(tables, chosen, place[1], before - CHANGED_BEFORE, before)
        last_at = datetime.fromisoformat(last)
        moment = moments[last_at]
        limits = _limits_at(tables, declared, chosen, *place, moment, keep)
        if last_at < end - STILL:
            ended.append(Ended(place, row["reason"], before, last_at, chosen))
        groups.append(
            DeathGroup(
                *place,
                row["reason"],
                row["deaths"],
                row["before"],
                row["lost"],
                row["is_declared"],
                f"{before.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{before.microsecond // 1000:03}Z",
                last,
                of_a_queue(row["reason"], limits, users.get(place, []), rates.get(place)),
                causes.get((*place, row["reason"])),
                next(changed, None),
                is_older=is_older,
            )
        )
    found = repairs(tables, ended, end)
    groups = [
        msgspec.structs.replace(one, repair=found.get(((one.vhost, one.queue), one.reason)))
        for one in groups
    ]
    groups.sort(key=lambda one: (-one.lost, one.is_declared, one.change is None))
    return groups


def _causes(
    tables: Tables, letters: str, begin: datetime, end: datetime
) -> dict[tuple[str, str, str], str]:
    """The most frequent cause of each group that has any."""
    found = tables.values(
        f"""
        SELECT vhost, queue, reason, mode(cause) FROM {letters}
        WHERE "at" >= CAST(? AS TIMESTAMPTZ) AND "at" < CAST(? AS TIMESTAMPTZ)
        AND cause IS NOT NULL GROUP BY ALL
        """,
        [begin.isoformat(), end.isoformat()],
    )
    return {(vhost, queue, reason): cause for vhost, queue, reason, cause in found}


def _begun(
    tables: Tables, counts: str, rows: Sequence[Row], first: datetime
) -> list[tuple[datetime, bool]]:
    """When the deaths of each group began, from an instant on, and whether that was even earlier.

    Args:
        counts: see `recent_deaths`.
    """
    earlier: dict[tuple[str, str, str], list[datetime]] = {}
    groups = ", ".join(
        f"({text(row['vhost'])}, {text(row['queue'])}, {text(row['reason'])})"
        for row in rows
        if row["before"]
    )
    if groups:
        found = tables.values(
            f"""
            SELECT vhost, queue, reason, min("first") AS minute FROM {counts}
            WHERE NOT is_new AND (vhost, queue, reason) IN ({groups})
            GROUP BY vhost, queue, reason, minutes_ago ORDER BY minute DESC
            """
        )
        for vhost, queue, reason, at in found:
            earlier.setdefault((vhost, queue, reason), []).append(at)
    begun = []
    for row in rows:
        since = datetime.fromisoformat(iso(row["since"]) or "")
        for at in earlier.get((row["vhost"], row["queue"], row["reason"]), []):
            if since - at > QUIET:
                break
            since = at
        begun.append((since, since <= first + QUIET))
    return begun


def _moments(
    recorded: Sequence[Recorded], instants: Sequence[datetime]
) -> dict[datetime, datetime]:
    """For each instant, the last of them before the next change: the same was declared then.

    Args:
        recorded: the changes between them.
    """
    if len(recorded) == MAX_READ:  # there may be more
        return {one: one for one in instants}
    changes = sorted(datetime.fromisoformat(one.change.at) for one in recorded)
    latest = {bisect_right(changes, one): one for one in sorted(instants)}
    return {one: latest[bisect_right(changes, one)] for one in instants}


def _limits_at(
    tables: Tables,
    declared: Mapping[str, Declared],
    chosen: Sequence[Recorded],
    vhost: str,
    queue: str,
    instant: datetime,
    keep: Keep,
) -> Limits:
    """The settings of a queue at an instant: those of now, unless they were changed since."""
    now = _settings(declared, vhost, queue)
    is_as_now = all(
        datetime.fromisoformat(one.change.at) <= instant
        or str(one.detail.get("what")).rpartition("_")[0] not in _OF_SETTINGS
        for one in chosen
    )
    if is_as_now:
        return Limits(now)
    try:
        then = keep(f"declared at {instant}", lambda: _declared_at(tables, instant))
    except QueryError:  # it is before what the tables know
        return Limits(now, are_of_now=True)
    return Limits(_settings(then, vhost, queue))


def _declared_at(tables: Tables, instant: datetime) -> Mapping[str, Declared]:
    shown, tables.cut = tables.cut, None
    try:
        tables.cut = at_time(tables, instant, last_batch(tables))
        return declared_in(tables)
    finally:
        tables.cut = shown


def _settings(declared: Mapping[str, Declared], vhost: str, queue: str) -> QueueSettings | None:
    """The settings of a queue; None: it is not declared."""
    each = declared.get(vhost)
    found = None if each is None else each.queues.get(queue)
    return None if each is None or found is None else each.vhost().settings(found)


def _events(tables: Tables, since: datetime, kinds: Collection[str]) -> str:
    view = tables.new_name("events")
    files = tables.files("events", {"at": since}, inclusive=True, kinds=kinds)
    return tables.view("events", files=files, columns=list(_EVENTS), view=view)


def _rejecting(
    tables: Tables, begin: datetime, end: datetime
) -> dict[tuple[str, str], list[str | None]]:
    """Who rejected messages of a queue, the most first; None: the operator."""
    rows = tables.rows(
        f"""
        SELECT vhost, queue, "user" FROM {_events(tables, begin, _DEATHS)}
        WHERE kind IN {_DEATHS} AND reason = 'rejected'
        AND "at" >= CAST(? AS TIMESTAMPTZ) AND "at" < CAST(? AS TIMESTAMPTZ)
        GROUP BY ALL ORDER BY count(*) DESC, "user"
        """,
        [begin.isoformat(), end.isoformat()],
    )
    found: dict[tuple[str, str], list[str | None]] = {}
    for row in rows:
        found.setdefault((row["vhost"], row["queue"]), []).append(row["user"])
    return found


def _rates(tables: Tables, full: Sequence[Row]) -> dict[tuple[str, str], tuple[float, float]]:
    """Copies that entered each full queue, and that consumers took, per second."""
    spans: dict[tuple[str, str], tuple[datetime, datetime]] = {}
    for row in full:
        first, last = (datetime.fromisoformat(iso(row[name]) or "") for name in ("since", "last"))
        longest, shortest = (last - timedelta(seconds=one) for one in (RATE_S, 1))
        spans[row["vhost"], row["queue"]] = max(min(first, shortest), longest), last
    if not spans:
        return {}
    earliest = min(first for first, _last in spans.values())
    among = ", ".join(
        f"({text(vhost)}, {text(queue)}, CAST({text(first.isoformat())} AS TIMESTAMPTZ), "
        f"CAST({text(last.isoformat())} AS TIMESTAMPTZ))"
        for (vhost, queue), (first, last) in spans.items()
    )
    rows = tables.values(
        f"""
        SELECT vhost, queue, count(*) FILTER (WHERE kind = 'enqueued'),
               count(*) FILTER (WHERE kind IN {_TAKEN})
        FROM (FROM {_events(tables, earliest, _MOVING)}  -- a constant: Parquet skips row groups
            WHERE "at" > CAST(? AS TIMESTAMPTZ) AND kind IN {_MOVING})
        JOIN (VALUES {among}) AS spans (vhost, queue, "first", "last") USING (vhost, queue)
        WHERE "at" > "first" AND "at" <= "last" GROUP BY ALL
        """,
        [earliest.isoformat()],
    )
    found = {}
    for vhost, queue, came, went in rows:
        first, last = spans[vhost, queue]
        seconds = (last - first).total_seconds()
        found[vhost, queue] = came / seconds, went / seconds
    return found
