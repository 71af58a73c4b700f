"""What became of a load, by the ledger and by the diaries of those who took part."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.bench.actors import GRAVEYARD, WORK
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables

_SHOWN = 3
_ENDINGS = {"acked", "died", "consumed", "purged", "deleted", "rerouted"}

Name = tuple[str, int]
"""A message: its publisher's name and its number."""


class Verdict(NamedTuple):
    """What came of it; `problems` is empty if all is well.

    Attributes:
        delivered_p50_s, delivered_p99_s: publish to first delivery, of undisturbed deliveries.
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


def left_in_queue(tables: Path) -> int:
    """Copies in the work queue, by the ledger; never 0 before something was published."""
    opened = Tables(str(tables))
    try:
        for row in balance(opened).queues:
            if row.queue == WORK:
                return row.ready + row.unacked + (not row.published)
    finally:
        opened.close()
    return 1


def judge(tables: Path, diaries: Iterable[Path]) -> Verdict:
    """Compare what the ledger says with what the publishers and consumers have noted."""
    problems: list[str] = []
    arrived = Counter(_names(tables))
    lives = _lives(tables)
    facts = [fact for diary in diaries for fact in _read(diary)]
    confirmed = {
        (fact["p"], fact["n"]) for fact in facts if "p" in fact and "s" not in fact and "n" in fact
    }
    delivered = [fact for fact in facts if "s" in fact]
    _none(problems, "confirmed, and not in messages", confirmed - arrived.keys())
    _none(problems, "more than once in messages", {n for n, times in arrived.items() if times > 1})
    seen = {(fact["p"], fact["n"]) for fact in delivered}
    _none(problems, "in messages, and never delivered", arrived.keys() - seen)
    _none(problems, "delivered, and not in messages", seen - arrived.keys())
    unsettled = {copy for copy, kinds in lives.items() if len(kinds) != 1}
    _none(problems, "copies not settled exactly once", unsettled)
    if len(lives) != arrived.total():
        problems.append(f"{arrived.total()} messages and {len(lives)} copies in {WORK}")
    _none(problems, "delivered out of order", set(_disorder(delivered)))
    ends = Counter(kinds[0] for kinds in lives.values() if kinds)
    problems += _balance(tables, ends["died"])
    first = [fact["took_s"] for fact in delivered if not fact["again"]]
    cuts = quantiles(first, n=100) if len(first) > 1 else [0.0] * 99
    return Verdict(
        arrived.total(),
        len(confirmed),
        len(delivered),
        sum(fact["again"] for fact in delivered),
        ends["acked"],
        ends["died"],
        cuts[49],
        cuts[98],
        problems,
    )


def _names(tables: Path) -> list[Name]:
    bodies = _column(tables, "messages", ["body"])
    found = (json.loads(row["body"]) for row in bodies)
    return [(body["p"], body["n"]) for body in found]


def _lives(tables: Path) -> dict[int, list[str]]:
    """The copies in the work queue, and how they ended."""
    lives: dict[int, list[str]] = {}
    rows = _column(tables, "events", ["kind", "queue", "copy_id", "seq"])
    for row in sorted((row for row in rows if row["queue"] == WORK), key=lambda row: row["seq"]):
        if row["kind"] == "enqueued":
            lives[row["copy_id"]] = []
        elif row["kind"] in _ENDINGS:
            lives[row["copy_id"]].append(row["kind"])
    return lives


def _column(tables: Path, table: str, names: list[str]) -> list[dict[str, Any]]:
    files = DeltaTable(str(tables / table)).file_uris()
    return [row for file in files for row in pq.read_table(file, columns=names).to_pylist()]


def _read(diary: Path) -> list[dict[str, Any]]:
    lines = diary.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _disorder(delivered: list[dict[str, Any]]) -> list[str]:
    """First deliveries to one consumer that came after a later message of the same publisher."""
    highest: defaultdict[tuple[str, str], int] = defaultdict(lambda: -1)
    found = []
    for fact in delivered:
        if not fact["again"]:
            line = fact["s"], fact["p"]
            if fact["n"] <= highest[line]:
                found.append(f"{fact['p']}:{fact['n']} after {highest[line]} to {fact['s']}")
            highest[line] = max(fact["n"], highest[line])
    return found


def _balance(tables: Path, died: int) -> list[str]:
    opened = Tables(str(tables))
    try:
        drawn = balance(opened)
    finally:
        opened.close()
    problems = [f"unexplained: {finding}" for finding in drawn.findings[:_SHOWN]]
    if drawn.unexplained:
        problems.append(f"{drawn.unexplained} unexplained in the balance")
    ready = sum(row.ready for row in drawn.queues if row.queue == GRAVEYARD)
    if ready != died:
        problems.append(f"{died} died and {ready} are in {GRAVEYARD}")
    return problems


def _none(problems: list[str], what: str, found: set[Any]) -> None:
    if found:
        some = ", ".join(str(one) for one in sorted(found)[:_SHOWN])
        problems.append(f"{len(found)} {what}: {some}")
