"""What the ledger says about all batches up to one: totals that a restarted job continues with."""

import math
from collections import Counter
from typing import Any, Final

import msgspec

from streaming.ledger.batch_detail import BatchRow, read_detail
from streaming.queries.as_of.snapshots import list_snapshots, opening_batch, totals_of
from streaming.queries.duckdb_tables import Tables

_FILES: Final = 8
"""How many files are read at least for the last batches: compacted ones hold many."""

_EARLIER: Final = "(query_id <> ? OR batch_id <= ?)"
_EVENTS: Final = "events/"
_DEATHS: Final = "deaths/"
"""How the fates of a snapshot begin that are totals for the metrics."""


class LedgerTotals(msgspec.Struct, frozen=True):
    """Totals of the ledger.

    Attributes:
        kinds: (vhost, queue) -> kind of event -> number; also `published` and `redelivered`.
        deaths: by vhost, queue, reason and outcome (`dead_lettered` if every target accepted).
        quarantined: by topic and cause.
    """

    kinds: dict[tuple[str, str], Counter[str]]
    deaths: Counter[tuple[str, str, str, str]]
    quarantined: Counter[tuple[str, str]]


def totals_through(tables: Tables, query_id: str, batch_id: int) -> LedgerTotals:
    """Add up the ledger, without the batches of a query after this one.

    It starts at the last snapshot, which has the totals of rows that retention removed.
    """
    totals = LedgerTotals({}, Counter(), Counter())
    since = _from_snapshot(tables, batch_id, totals)
    parameters = [query_id, batch_id, since]
    shared = ["query_id", "batch_id", "vhost", "queue"]
    later = {"batch_id": since}
    events = tables.files("events", later)
    tables.view("events", files=events, columns=[*shared, "kind", "parent_copy_id", "number"])
    for vhost, queue, kind, rows, published, redelivered in tables.values(
        f"""
        SELECT vhost, coalesce(queue, ''), kind, count(*),
               count(*) FILTER (WHERE kind = 'enqueued' AND parent_copy_id IS NULL),
               count(*) FILTER (WHERE kind IN ('delivered', 'consumed') AND number > 0)
        FROM events WHERE vhost IS NOT NULL AND {_EARLIER} AND batch_id > ?
        GROUP BY ALL ORDER BY ALL
        """,
        parameters,
    ):
        found = totals.kinds.setdefault((vhost, queue), Counter())
        found[kind] += rows
        found["published"] += published
        found["redelivered"] += redelivered
    deaths = tables.files("dead_letters", later)
    tables.view("dead_letters", files=deaths, columns=[*shared, "reason", "outcome"])
    for *key, rows in tables.values(
        f"""
        SELECT vhost, queue, reason, coalesce(nullif(outcome, ''), 'dead_lettered'), count(*)
        FROM dead_letters WHERE {_EARLIER} AND batch_id > ? GROUP BY ALL ORDER BY ALL
        """,
        parameters,
    ):
        totals.deaths[_texts(key)] += rows
    tables.view("quarantine", columns=["query_id", "batch_id", "origin", "cause"])
    for topic, cause, rows in tables.values(
        f"""
        SELECT coalesce(origin.topic, ''), cause, count(*) FROM quarantine WHERE {_EARLIER}
        GROUP BY ALL ORDER BY ALL
        """,
        parameters[:2],
    ):
        totals.quarantined[topic, cause] = rows
    return totals


def _from_snapshot(tables: Tables, batch_id: int, totals: LedgerTotals) -> int:
    """Add the totals of the last snapshot up to a batch; return its batch, -1 if there is none."""
    for snapshot in reversed(list_snapshots(tables)):
        if snapshot.batch_id > batch_id:
            continue
        for row in totals_of(tables, snapshot):
            vhost, queue, fate = row["vhost"], row["queue"] or "", row["fate"]
            if fate.startswith(_EVENTS):
                found = totals.kinds.setdefault((vhost, queue), Counter())
                found[fate.removeprefix(_EVENTS)] += row["number"]
            elif fate.startswith(_DEATHS):
                reason, outcome = fate.removeprefix(_DEATHS).split("/", 1)
                totals.deaths[vhost, queue, reason, outcome] += row["number"]
        return snapshot.batch_id
    return -1


def _texts(key: list[Any]) -> tuple[str, str, str, str]:
    vhost, queue, reason, outcome = key
    return vhost, queue, reason, outcome


def last_batches(tables: Tables, count: int) -> list[BatchRow]:
    """List the rows of the last batches, the newest first.

    It reads the files with the latest events, and more of them until no other can have later ones.
    """
    return tables.once(f"last batches {count}", lambda: _read_batches(tables, count))


def _read_batches(tables: Tables, count: int) -> list[BatchRow]:
    if not tables.has("events"):
        return []
    newest = _newest_files(tables)
    taken = 2 * count + _FILES
    while True:
        files = [path for _, path in newest[:taken]]
        tables.view("events", files=files, columns=["kind", "query_id", "batch_id", "at", "detail"])
        found = tables.values(
            "SELECT query_id, batch_id, epoch_ms(\"at\"), detail FROM events WHERE kind = 'batch' "
            'ORDER BY "at" DESC, batch_id DESC LIMIT ?',
            [count],
        )
        left = newest[taken:]
        if not left or (len(found) == count and left[0][0] < found[-1][2] / 1000):
            break
        taken *= 4
    return [
        BatchRow(query_id, batch_id, now_ms, read_detail(detail))
        for query_id, batch_id, now_ms, detail in found
    ]


def _newest_files(tables: Tables) -> list[tuple[float, str]]:
    """The files of `events` that may hold rows of batches: their last instant, the newest first."""
    paths = tables.of_files("events", "path") or []
    nothing = [None] * len(paths)
    told = (tables.of_files("events", one) or nothing for one in ("max.at", "min.kind", "max.kind"))
    wanted = set(tables.files("events"))
    found = [
        (math.inf if last is None else last.timestamp(), path)
        for path, last, least, most in zip(paths, *told, strict=True)
        if path in wanted and (least is None or most is None or least <= "batch" <= most)
    ]
    return sorted(found, reverse=True)


def earliest_event_s(tables: Tables) -> float | None:
    """The instant of the earliest event of which the ledger still has all later ones, epoch s.

    After a retention run this is the snapshot where it begins: older events that stay are not all.
    """
    opening = opening_batch(tables, "events")
    at = next((one.at for one in list_snapshots(tables) if one.batch_id == opening), None)
    if at is not None:
        return at.timestamp()
    tables.view("events", columns=["at"])
    [(earliest,)] = tables.values('SELECT min(epoch("at")) FROM events')
    return None if earliest is None else float(earliest)
