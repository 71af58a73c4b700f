"""What became of the messages of a lane, counted by queue: as recorded, and as the core says it."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from streaming.broker.events import ENDINGS, Events, Kind
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables

FateKey = tuple[str, str, str]
"""Queue, fate, reason."""

_LEAVING: Final = frozenset(kind.name.lower() for kind in ENDINGS)
_TURNED_AWAY: Final = "turned_away"
"""The copies that died because their queue was full, without having been in it."""

_NO_FATES: Final = frozenset({"delivered", "requeued", "settle_missed", "edited", _TURNED_AWAY})


def recorded_fates(tables: Tables, cut: Cut, vhost: str, lane: int) -> Counter[FateKey]:
    """What the tables say, of everything after a cut."""
    counts: Counter[FateKey] = Counter()
    tables.view("events", files=tables.files("events", {"batch_id": cut.batch_id}))
    for queue, kind, reason, count, turned_away in tables.values(
        f"""
        SELECT coalesce(queue, ''), kind, coalesce(reason, ''), count(*),
               count(*) FILTER (kind = 'died' AND copy_id = seq) FROM events
        WHERE vhost = ? AND lane = ? AND message_id IS NOT NULL
        AND NOT ({cut.condition("events")}) GROUP BY ALL
        """,
        [vhost, lane],
    ):
        counts[queue, kind, reason] += count
        counts[queue, _TURNED_AWAY, ""] += turned_away
    tables.view("dead_letters", files=tables.files("dead_letters", {"batch_id": cut.batch_id}))
    for queue, outcome, count in tables.values(
        f"""
        SELECT queue, outcome, count(*) FROM dead_letters
        WHERE vhost = ? AND lane = ? AND outcome IS NOT NULL AND len(targets) = 0
        AND NOT ({cut.condition("dead_letters")}) GROUP BY ALL
        """,
        [vhost, lane],
    ):
        counts[queue, "lost", outcome] += count
    return counts


def fates_in(events: Events) -> Counter[FateKey]:
    """What the core says."""
    outcomes = dict(zip(events.death_rows, events.death_outcomes, strict=True))
    found: Counter[FateKey] = Counter()
    for row, kind in enumerate(events.kinds):
        copy = events.copies[row]
        if copy is None and row not in events.messages:
            continue
        if kind == Kind.DIED and copy is not None and copy.copy_id == events.first_seq + row:
            found[events.queues[row], _TURNED_AWAY, ""] += 1
        outcome = outcomes.get(row)
        reason = outcome.reason if outcome else events.details.get(row, {}).get("reason", "")
        found[events.queues[row], Kind(kind).name.lower(), reason] += 1
        if outcome is not None and outcome.outcome and not outcome.targets:
            found[events.queues[row], "lost", outcome.outcome] += 1
    return found


def with_waiting(counts: Mapping[FateKey, int], started: Counter[str]) -> dict[FateKey, int]:
    """The fates, and how many copies each queue has at the end.

    Args:
        started: how many it had at the beginning.
    """
    waiting = Counter(started)
    fates: dict[FateKey, int] = {}
    for (queue, fate, reason), count in counts.items():
        if fate in {"enqueued", _TURNED_AWAY}:
            waiting[queue] += count
        elif fate in _LEAVING:
            waiting[queue] -= count
        if fate not in _NO_FATES:
            fates[queue, fate, reason] = count
    return fates | {(queue, "waiting", ""): count for queue, count in waiting.items() if count}
