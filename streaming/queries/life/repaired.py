"""Since when a cause of deaths is gone: something came or changed, and since then nothing died.

    the last death --> a release, a policy, a consumer --> messages were taken, and none died

Without messages that were taken since, nobody knows: a queue in which nothing happens is not
repaired.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from streaming.queries.duckdb_tables import Tables, text
from streaming.queries.vhosts.changes import Change, Recorded, is_deployment
from topology.sentences import say

GRACE: Final = timedelta(seconds=5)
"""For so long after a change, what was begun before it may still die."""

CONSUMED: Final = ("expired", "maxlen")
"""Reasons of deaths that a consumer ends by coming back."""

_COLUMNS: Final = ("vhost", "queue", "kind", "user", "at", "detail")

Place = tuple[str, str]
"""A vhost, and the name of a queue in it."""


class Repair(msgspec.Struct, frozen=True):
    """What has ended deaths of a queue.

    Attributes:
        at: since when nothing died.
        change: what came then, or was changed.
        taken: how many messages consumers have taken since.
    """

    at: str
    change: Change
    taken: int


class Ended(NamedTuple):
    """Deaths of a queue for one reason that have stopped.

    Attributes:
        since, last: the first and the last of them.
        chosen: the changes that concern the queue, the latest first.
    """

    place: Place
    reason: str
    since: datetime
    last: datetime
    chosen: Sequence[Recorded]


def repairs(
    tables: Tables, ended: Sequence[Ended], end: datetime
) -> dict[tuple[Place, str], Repair]:
    """Say what has ended deaths, by queue and reason; absent where nothing is known to have.

    Args:
        end: what happened later is not looked at.
    """
    came = _consumers(tables, [one for one in ended if one.reason in CONSUMED], end)
    found: dict[tuple[Place, str], tuple[Change, datetime]] = {}
    for one in ended:
        changes = [each.change for each in one.chosen]
        if (one.place, one.reason) in came:
            changes.append(came[one.place, one.reason])
        times = ((datetime.fromisoformat(each.at), each) for each in changes)
        later = [each for each in times if _is_after(one, *each) and each[0] <= end]
        if later:
            at, change = min(later, key=lambda each: each[0])
            found[one.place, one.reason] = change, max(at, one.last)
    taken = _taken(tables, ((place, at) for (place, _reason), (_change, at) in found.items()), end)
    return {
        key: Repair(at.astimezone(UTC).isoformat(), change, taken[key[0], at])
        for key, (change, at) in found.items()
        if taken.get((key[0], at))
    }


def _is_after(ended: Ended, at: datetime, change: Change) -> bool:
    """Whether a change came after deaths; a deployment at the instant of a death did."""
    if at <= ended.last - GRACE:
        return False
    return at > ended.since or (at == ended.since and is_deployment(change))


def _among(spans: Iterable[tuple[Place, datetime]]) -> str:
    return ", ".join(
        f"({text(vhost)}, {text(queue)}, CAST({text(at.isoformat())} AS TIMESTAMPTZ))"
        for (vhost, queue), at in spans
    )


def _events(tables: Tables, since: datetime) -> str:
    view = tables.new_name("events")
    files = tables.files("events", {"at": since}, inclusive=True)
    return tables.view("events", files=files, columns=list(_COLUMNS), view=view)


def _consumers(
    tables: Tables, ended: Sequence[Ended], end: datetime
) -> Mapping[tuple[Place, str], Change]:
    """The first consumer of each queue that came after its last death."""
    if not ended:
        return {}
    spans: dict[Place, datetime] = {}
    for one in ended:
        spans[one.place] = min(one.last - GRACE, spans.get(one.place, one.last))
    rows = tables.values(
        f"""
        SELECT vhost, queue, min("at"), arg_min("user", "at")
        FROM {_events(tables, min(spans.values()))}
        JOIN (VALUES {_among(spans.items())}) AS spans (vhost, queue, "last") USING (vhost, queue)
        WHERE kind = 'channel' AND detail ->> '$.what' = 'consumer_started'
        AND "at" > "last" AND "at" <= CAST({text(end.isoformat())} AS TIMESTAMPTZ)
        GROUP BY ALL
        """
    )
    what = say("consumer started")
    came = {
        (vhost, queue): Change(at.astimezone(UTC).isoformat(), what, user or "", user)
        for vhost, queue, at, user in rows
    }
    return {(one.place, one.reason): came[one.place] for one in ended if one.place in came}


def _taken(
    tables: Tables, spans: Iterable[tuple[Place, datetime]], end: datetime
) -> dict[tuple[Place, datetime], int]:
    """How many messages of each queue consumers took after an instant."""
    wanted = list(spans)
    if not wanted:
        return {}
    rows = tables.values(
        f"""
        SELECT vhost, queue, "since", count(*)
        FROM {_events(tables, min(at for _place, at in wanted))}
        JOIN (VALUES {_among(wanted)}) AS spans (vhost, queue, "since") USING (vhost, queue)
        WHERE kind IN ('acked', 'consumed')
        AND "at" > "since" AND "at" <= CAST({text(end.isoformat())} AS TIMESTAMPTZ)
        GROUP BY ALL
        """
    )
    return {((vhost, queue), since): count for vhost, queue, since, count in rows}
