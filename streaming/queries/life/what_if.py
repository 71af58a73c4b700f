"""What if the topology had been another: a recorded stretch, played again on the pure core.

    copies in queues at T  +  what happened since T  -->  core with other definitions (`replay`)
                                                     -->  fates by queue, compared

The answer is deterministic: equal tables and definitions give an equal answer, whatever the number
of processes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from streaming.broker.config import ShardConfig
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.life.fates import FateKey
from streaming.queries.life.replay import Replay, Replayed, ReplayJob
from topology.definitions.load import load_definitions
from topology.values import Compat


class Fate(msgspec.Struct, frozen=True):
    """How many copies of a queue, or messages of a vhost, had one fate, then and now.

    Attributes:
        queue: empty for messages that reached no queue.
        fate: an event's kind, `lost`, or `waiting` at the end; `reason` says why.
    """

    vhost: str
    queue: str
    fate: str
    reason: str
    recorded: int
    replayed: int


class WhatIf(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        publishes: how many publishes were replayed.
        resident: how many copies were in queues at the beginning.
        unplayed: deliveries, settlements, purges, redrives and so on that found no message where
            one was recorded.
        apart: what was not replayed -> how often; the words say why.
        unlisted: vhosts of the tables that the definitions do not have.
    """

    fates: list[Fate]
    publishes: int
    resident: int
    unplayed: int
    apart: dict[str, int]
    unlisted: list[str]


def what_if(
    tables: Tables,
    cut: Cut,
    document: bytes,
    *,
    options: Mapping[str, str] | None = None,
    compat: Compat = "4.0",
    processes: int = 1,
    rules: Mapping[str, ShardConfig] | None = None,
) -> WhatIf:
    """Replay what happened after a cut with the topology of a definitions document.

    Args:
        rules: by vhost, what besides topology and compat decides, such as default limits.

    Raises:
        QueryError: the tables have nothing after the cut, or no vhost that the document has.
        InvalidTopologyError: the document is not valid.
    """
    known = load_definitions(document, compat=compat).vhosts
    tables.view("events", columns=["vhost", "lane"])
    found = tables.values(
        "SELECT vhost, max(lane) FROM events WHERE vhost IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    rules = rules or {}
    jobs = [
        ReplayJob(
            *(tables.root, dict(options or {}), cut, *place, most + 1, document),
            compat,
            rules.get(vhost, ShardConfig()),
        )
        for vhost, most in found
        if vhost in known
        for place in ((vhost, lane) for lane in range(most + 1))
    ]
    if not jobs:
        names = ", ".join(repr(vhost) for vhost, _ in found)
        raise QueryError(f"the definitions have no vhost of the tables: {names or 'there is none'}")
    if min(processes, len(jobs)) > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(_replay, jobs))
    else:
        parts = [_replay(job) for job in jobs]
    totals: dict[tuple[str, FateKey], list[int]] = {}
    for job, part in zip(jobs, parts, strict=True):
        for place, counts in enumerate((part.recorded, part.replayed)):
            for key, count in counts.items():
                totals.setdefault((job.vhost, key), [0, 0])[place] += count
    return WhatIf(
        [Fate(vhost, *key, *both) for (vhost, key), both in sorted(totals.items()) if any(both)],
        sum(part.publishes for part in parts),
        sum(part.resident for part in parts),
        sum(part.unplayed for part in parts),
        _sums(part.apart for part in parts),
        [vhost for vhost, _most in found if vhost not in known],
    )


def _replay(job: ReplayJob) -> Replayed:
    with Tables(job.root, job.options, threads=1) as tables:
        return Replay(tables, job).run()


def _sums(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(sorted(found.items()))
