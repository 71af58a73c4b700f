"""Now: is anything wrong? The verdict first, then the figures that it follows from."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from streaming.console.account import Drawn, account_of_all, entered_none, ways_of
from streaming.console.fronts import Heard
from streaming.console.lag import Lag
from streaming.console.movable import movable
from streaming.console.page import Answer, View
from streaming.console.pages.health import job_of
from streaming.console.queue_marks import Marked, marked
from streaming.console.shown import instant
from streaming.console.verdict import MINUTES, STALE_S, Facts, verdict
from streaming.ledger.batch_detail import BatchRow
from streaming.queries.as_of.instant import first_event
from streaming.queries.dead_letters.waiting import WaitingQueue, waiting_queues
from streaming.queries.death_rates import deaths_by_minute, latest_death, pattern_of
from streaming.queries.duckdb_tables import Tables
from streaming.queries.job_totals import last_batches
from streaming.queries.life.what_died import DeathGroup, what_died
from topology.sentences import say_count


def now(view: View) -> Answer:
    """Show whether anything is wrong."""
    view.command = view.dlx("overview")
    batches = last_batches(view.tables, 1)
    last = batches[0] if batches else None
    end = view.end
    has_deaths = view.tables.has("dead_letters")
    quiet_in = view.console.quiet_in
    not_lost = quiet_in("DlxDeadLettersLost")
    deaths = (
        deaths_by_minute(
            view.tables,
            end,
            MINUTES,
            vhost=view.vhost,
            quiet=quiet_in("DlxDeathBurst"),
            not_lost=not_lost,
        )
        if has_deaths
        else []
    )
    died = _died(view, end) if has_deaths and last is not None else []
    order = view.one_of("order", "worst", "oldest")
    if order == "oldest":
        died = sorted(died, key=lambda one: one.since)
    by_reason: Counter[str] = Counter()
    recent: Counter[str] = Counter()
    minutes, loud = [0] * MINUTES, [0] * MINUTES
    for row in deaths:
        minute = min(row["minute"], MINUTES - 1)
        by_reason[row["reason"]] += row["deaths"]
        minutes[minute] += row["deaths"]
        loud[minute] += row["loud"]
        if minute == MINUTES - 1:
            recent[row["reason"]] += row["deaths"]
    latest = latest_death(view.tables, end, view.vhost) if has_deaths and not deaths else None
    waiting = [one for one in all_waiting(view) if view.sees(one.vhost)]
    is_balanced = view.as_of is None and view.user.administrator and last is not None
    drawn = last_balance(view) if is_balanced else None
    balance = None if drawn is None else drawn.balance
    silence_s = None
    if view.as_of is None and last is not None:
        silence_s = max(end.timestamp() - last.at_s, 0.0)
    unexplained: str = ""
    if balance is not None and balance.unexplained:
        unexplained = say_count(
            "%(count)s row is unexplained at batch %(batch)s",
            "%(count)s rows are unexplained at batch %(batch)s",
            balance.unexplained,
            batch=str(balance.batch_id),
        )
    lag = _lag(view, last, silence_s)
    job = job_of(view)
    marks = Marked([], []) if last is None else marked(view)
    facts = Facts(
        end=end,
        minutes=loud,
        lost=sum(row["lost"] for row in deaths),
        waiting=_loud(waiting, quiet_in("DlxDeadLettersUnhandled")),
        unserved=marks.unserved,
        nearly_full=marks.nearly_full,
        dropping=marks.dropping,
        dropped=marks.dropped,
        gate=None if last is None else last.detail.gate,
        silence_s=silence_s,
        has_batch=last is not None,
        lag=lag,
        runs=job.runs,
        failing=job.failing,
        unexplained=unexplained,
        known_since=first_event(view.tables) if last is not None else None,
        missing=[] if has_deaths else ["dead_letters"],
        sees=_sees(view),
    )
    return {
        "end": end,
        "hour_before": _known(facts.known_since, end - timedelta(minutes=2 * MINUTES), MINUTES),
        "since": instant(end - timedelta(minutes=MINUTES)),
        "last": last,
        "facts": facts,
        "verdict": verdict(facts),
        "died": died,
        "movable": movable(view) if died and view.as_of is None else None,
        "order": order,
        "deaths": by_reason,
        "recent": recent,
        "latest": latest,
        "then": None if latest is None else instant(latest + timedelta(seconds=1)),
        "minutes": minutes,
        "waiting": waiting,
        "lost": facts.lost,
        "dropped": sum(row["dropped"] for row in deaths),
        "balance": balance,
        "drawn": drawn,
        "ways": [] if drawn is None else ways_of(drawn),
        "account": None if balance is None else account_of_all(balance),
        "entered_none": 0 if balance is None else entered_none(balance),
        "lag": lag if view.user.administrator else None,
        "job": job,
        "fronts": _fronts(view),
        "compared": {} if last is None else last.detail.compared,
    }


def _died(view: View, end: datetime) -> list[DeathGroup]:
    """What died in the hour before; that of a past instant is remembered."""

    def found(tables: Tables) -> list[DeathGroup]:
        span = timedelta(minutes=MINUTES)
        return what_died(tables, view.declared, end, span, vhost=view.vhost, keep=view.of_topology)

    if view.as_of is None:
        return found(view.tables)
    return view.once(f"died {view.vhost} {end}", found)


def _known(
    since: datetime | None, begin: datetime, minutes: int
) -> Literal["whole", "partly", "not"]:
    """How much the tables know of a stretch of time."""
    if since is None or since <= begin:
        return "whole"
    return "partly" if since < begin + timedelta(minutes=minutes) else "not"


def _lag(view: View, last: BatchRow | None, silence_s: float | None) -> Lag | None:
    config = view.console.config
    if config is None or last is None or silence_s is None:
        return None
    return view.console.lag.of(config, last.detail.positions, is_needed=silence_s > STALE_S)


def _fronts(view: View) -> Mapping[str, Heard]:
    """The front of each sequenced vhost, for administrators; none if Kafka has not told."""
    config = view.console.config
    if config is None or view.as_of is not None or not view.user.administrator:
        return {}
    return view.console.fronts.of(config) or {}


def _sees(view: View) -> Literal["all", "some", "none"]:
    if view.tables.vhosts is None:
        return "all"
    return "some" if view.tables.vhosts else "none"


def _loud(queues: list[WaitingQueue], quiet: tuple[str, ...]) -> list[WaitingQueue]:
    if not quiet:
        return queues
    pattern = re.compile(pattern_of(quiet))
    return [one for one in queues if not pattern.fullmatch(one.queue)]


def last_balance(view: View) -> Drawn | None:
    """The last balance that was drawn of all vhosts; another is begun if it is old."""
    version = view.tables.table("events").version()
    not_lost = view.console.quiet_in("DlxDeadLettersLost")
    return view.console.balance.last(view.console.reader, version, not_lost)


def all_waiting(view: View) -> list[WaitingQueue]:
    """The queues in which dead letters wait."""
    return view.once("waiting", waiting_queues)
