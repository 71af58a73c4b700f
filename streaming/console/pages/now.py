"""Now: is anything wrong? The verdict first, then the figures that it follows from."""

from collections import Counter
from datetime import datetime
from typing import Final, NamedTuple

from streaming.console.page import Answer, View
from streaming.console.shown import ago, number
from streaming.queries.job_totals import last_batches
from streaming.queries.standing import WaitingQueue, deaths_by_minute, waiting_queues

MINUTES: Final = 60
BURST: Final = 3
"""So many times the deaths of a usual minute are a burst."""

OLD_S: Final = 3_600


class Concern(NamedTuple):
    """Something that is wrong, or may be."""

    tone: str
    what: str
    path: str = ""


def now(view: View) -> Answer:
    """Show whether anything is wrong."""
    view.command = view.dlx("overview")
    batches = last_batches(view.tables, 1)
    last = batches[0] if batches else None
    end = view.end
    deaths = deaths_by_minute(view.tables, end, MINUTES) if view.tables.has("dead_letters") else []
    by_reason: Counter[str] = Counter()
    recent: Counter[str] = Counter()
    minutes = [0] * MINUTES
    for row in deaths:
        by_reason[row["reason"]] += row["deaths"]
        minutes[min(row["minute"], MINUTES - 1)] += row["deaths"]
        if row["minute"] >= MINUTES - 1:
            recent[row["reason"]] += row["deaths"]
    waiting = [one for one in all_waiting(view) if view.sees(one.vhost)]
    lost = sum(row["lost"] for row in deaths)
    gate = last["detail"].get("gate") if last else None
    standing = None
    if view.as_of is None and view.user.administrator and last is not None:
        version = view.tables.table("events").version()
        standing = view.console.balance.last(view.console.reader, version)
    lag = None
    config = view.console.config
    if config and view.as_of is None and view.user.administrator and last is not None:
        lag = view.console.lag.of(config, last["detail"].get("offsets") or {})
    concerns = _concerns(minutes, waiting, lost, gate, end)
    if standing is not None and standing.unexplained:
        what = f"{number(standing.unexplained)} rows are unexplained at batch {standing.batch_id}"
        concerns.insert(0, Concern("bad", what))
    return {
        "end": end,
        "last": last,
        "gate": gate,
        "deaths": by_reason,
        "recent": recent,
        "minutes": minutes,
        "waiting": waiting,
        "lost": lost,
        "standing": standing,
        "lag": lag,
        "concerns": concerns,
    }


def all_waiting(view: View) -> list[WaitingQueue]:
    """The queues in which dead letters wait."""
    return view.once("waiting", waiting_queues)


def _concerns(
    minutes: list[int],
    waiting: list[WaitingQueue],
    lost: int,
    gate: dict[str, object] | None,
    end: datetime,
) -> list[Concern]:
    """Return what is wrong, the worst first."""
    found = []
    if lost:
        found.append(
            Concern("bad", f"{number(lost)} dead letters of the last hour are in no queue")
        )
    usual = sum(minutes[:-1]) / (len(minutes) - 1)
    if minutes[-1] > max(BURST * usual, BURST):
        what = (
            f"{number(minutes[-1])} messages died in the last minute, and {usual:.1f} a minute in "
            "the hour before"
        )
        found.append(Concern("bad", what))
    if gate is not None and not gate.get("open", True):
        found.append(Concern("warn", f"publishes are paused by flow control: {gate.get('cause')}"))
    old = [
        one
        for one in waiting
        if (end - datetime.fromisoformat(one.oldest_at)).total_seconds() > OLD_S
    ]
    if old:
        oldest = old[0]
        what = (
            f"{number(sum(one.count for one in old))} dead letters wait in queues, the oldest for "
            f"{ago(oldest.oldest_at, end)} in {oldest.queue}"
        )
        found.append(Concern("warn", what))
    return found
