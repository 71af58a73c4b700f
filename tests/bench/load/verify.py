"""Verifies a load: compares the tables with the event logs of the publishers and consumers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple, TypeAlias

from streaming.queries.audit.balance import Balance, balance
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.bench.load.actors import GRAVEYARD, WORK, key_of

_MAX_SHOWN = 3
_ENDINGS = {"acked", "died", "consumed", "purged", "deleted", "rerouted"}

Name: TypeAlias = tuple[str, int]
"""A message: the name of its publisher, and its number."""


class LoadReport(NamedTuple):
    """The outcome of a load.

    Attributes:
        messages: rows of `messages`.
        confirmed: publishes that were confirmed.
        deliveries: deliveries that the consumers logged.
        redelivered: how many of them were redeliveries.
        acked: copies of the work queue that were acked.
        died: copies of the work queue that died.
        delivered_p50_s: median time from publish to delivery, without redeliveries.
        delivered_p99_s: the same, 99th percentile.
        problems: what is wrong; empty if everything is accounted for.
    """

    messages: int
    confirmed: int
    deliveries: int
    redelivered: int
    acked: int
    died: int
    delivered_p50_s: float
    delivered_p99_s: float
    problems: list[str]


def copies_in_queue(tables: Location) -> int:
    """Return the copies in the work queue; at least 1 before anything was published."""
    with closing(Tables(tables.url, tables.options)) as opened:
        rows = [row for row in balance(opened).queues if row.queue == WORK]
    return sum(row.ready + row.unacked + (not row.published) for row in rows) if rows else 1


def verify(tables: Location, event_logs: Iterable[Path]) -> LoadReport:
    """Compare the tables with the event logs."""
    problems: list[str] = []
    with closing(Tables(tables.url, tables.options)) as opened:
        arrived = Counter(_names(opened))
        endings = _endings(opened)
        balanced = balance(opened)
    events = [event for log in event_logs for event in _read(log)]
    delivered = [event for event in events if "s" in event]
    confirmed = {(each["p"], each["n"]) for each in events if "n" in each and "s" not in each}
    seen = {(each["p"], each["n"]) for each in delivered}
    ends = Counter(kinds[0] for kinds in endings.values() if kinds)
    for problem, found in (
        ("confirmed, but not in messages", confirmed - arrived.keys()),
        ("more than once in messages", {name for name, times in arrived.items() if times > 1}),
        ("in messages, but never delivered", arrived.keys() - seen),
        ("delivered, but not in messages", seen - arrived.keys()),
        (
            "copies not settled exactly once",
            {copy for copy, kinds in endings.items() if len(kinds) != 1},
        ),
        ("delivered out of order", set(out_of_order(delivered))),
    ):
        if found:
            shown = ", ".join(str(one) for one in sorted(found)[:_MAX_SHOWN])
            problems.append(f"{len(found)} {problem}: {shown}")
    if len(endings) != arrived.total():
        problems.append(f"{arrived.total()} messages, but {len(endings)} copies in {WORK}")
    problems += _balance_problems(balanced, ends["died"])
    first = [each["took_s"] for each in delivered if not each["again"]]
    cuts = quantiles(first, n=100) if len(first) > 1 else [0.0] * 99
    return LoadReport(
        messages=arrived.total(),
        confirmed=len(confirmed),
        deliveries=len(delivered),
        redelivered=sum(each["again"] for each in delivered),
        acked=ends["acked"],
        died=ends["died"],
        delivered_p50_s=cuts[49],
        delivered_p99_s=cuts[98],
        problems=problems,
    )


def _names(tables: Tables) -> list[Name]:
    tables.view("messages", columns=["body"])
    bodies = [json.loads(body) for (body,) in tables.values("SELECT body FROM messages")]
    return [(body["p"], body["n"]) for body in bodies]


def _endings(tables: Tables) -> dict[tuple[int, int], list[str]]:
    """How each copy in the work queue ended, by lane and id."""
    endings: dict[tuple[int, int], list[str]] = {}
    tables.view("events", columns=["kind", "queue", "lane", "copy_id", "seq"], view="moves")
    for lane, copy_id, kind in tables.values(
        "SELECT lane, copy_id, kind FROM moves WHERE queue = ? ORDER BY seq", [WORK]
    ):
        if kind == "enqueued":
            endings[lane, copy_id] = []
        elif kind in _ENDINGS:
            endings[lane, copy_id].append(kind)
    return endings


def _read(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def out_of_order(delivered: list[dict[str, Any]]) -> list[str]:
    """Return first deliveries to a consumer that follow a later message of the same key.

    Messages with one key are in one partition. How partitions merge depends on where batches begin.
    """
    highest: defaultdict[tuple[str, str, int], int] = defaultdict(lambda: -1)
    found = []
    for event in delivered:
        if not event["again"]:
            key = event["s"], event["p"], key_of(event["n"])
            if event["n"] <= highest[key]:
                found.append(f"{event['p']}:{event['n']} after {highest[key]} to {event['s']}")
            highest[key] = max(event["n"], highest[key])
    return found


def _balance_problems(result: Balance, died: int) -> list[str]:
    problems = [f"unexplained: {finding}" for finding in result.findings[:_MAX_SHOWN]]
    if result.unexplained:
        problems.append(f"the balance has {result.unexplained} unexplained")
    ready = sum(row.ready for row in result.queues if row.queue == GRAVEYARD)
    if ready != died:
        problems.append(f"{died} died, but {ready} are in {GRAVEYARD}")
    return problems
