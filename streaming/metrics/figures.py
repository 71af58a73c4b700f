"""The figures of a running job that its metrics show.

Spark's thread writes them after each batch, threads of their own ask Kafka and the tables, and the
HTTP server reads them. Nobody waits for a lock: readers copy a mapping with `list(...)` first.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from streaming.broker.overview import QueueOverview
from streaming.exposition.families import Family, Queue, Scrape
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.reports import BatchDone, ShardStats
from streaming.pipeline.traffic import TrafficTotals
from streaming.queries.job_totals import LedgerTotals

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the classes of durations."""


class Histogram:
    """Counts of durations by class, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Count durations that are alike."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(SECONDS, seconds)] += count
        self.sum_s += seconds * count

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound."""
        found, total = [], 0.0
        for bound, count in zip((*map(str, SECONDS), "+Inf"), list(self.counts), strict=True):
            total += count
            found.append((bound, total))
        return found


class Lag(msgspec.Struct, frozen=True):
    """The position in one partition: the next offset to read, and the end."""

    offset: int
    end: int


class TableSize(msgspec.Struct, frozen=True):
    """The size of one table."""

    files: int
    bytes: int
    rows: int


class Unhandled(msgspec.Struct, frozen=True):
    """The dead letters that wait in a queue; `oldest_s` is an instant, epoch seconds."""

    count: int
    oldest_s: float


class JobFigures:
    """Everything that the metrics show.

    Attributes:
        queues: each queue's figures by lane.
        kinds: events of each queue by kind; incomplete until `is_seeded`.
        deaths: by vhost, queue, reason and outcome; likewise.
        quarantined: by topic and cause; likewise.
        is_seeded: whether the totals of earlier runs have been added.
        redrives: letters of all redrives by vhost and outcome.
        retention_s: how long the tables keep what, if not for ever.
        unexplained: of the last balance; None before the first.
        quiet: patterns of queues that alerts leave out; see `metrics.quiet_queues`.
        quiet_of: the same for single alerts, by name; see `alerts.quiet`.
        taken_s: when a batch last handed out a message of a queue.
        is_kafka_reachable: None before it was asked.
        failure: the code of what ended the last run, until a batch is committed.
        notified: attempts to notify the webhook, by outcome.
    """

    def __init__(self, job_name: str) -> None:
        self.job_name = job_name
        self.started_s = time.time()
        self.queues: dict[Queue, dict[int, QueueOverview]] = {}
        self.kinds: dict[Queue, Counter[str]] = {}
        self.deaths: Counter[tuple[str, str, str, str]] = Counter()
        self.quarantined: Counter[tuple[str, str]] = Counter()
        self.is_seeded = False
        self.totals: TrafficTotals | None = None
        self.stats = ShardStats(BatchDetail())
        self.gate: GateState | None = None
        self.batch_seconds = Histogram()
        self.visible_seconds = Histogram()
        self.last_batch: int | None = None
        self.last_batch_s = 0.0
        self.offsets: dict[str, dict[str, int]] = {}
        self.lags: dict[tuple[str, int], Lag] = {}
        self.tables: dict[str, TableSize] = {}
        self.unhandled: dict[Queue, Unhandled] = {}
        self.redrives: dict[tuple[str, str], int] = {}
        self.retention_s: dict[str, float] = {}
        self.earliest_s: float | None = None
        self.unexplained: int | None = None
        self.balance_s: float | None = None
        self.failures: Counter[str] = Counter()
        self.memory_limit_bytes: int | None = None
        self.disk_path = ""
        self.quiet: tuple[str, ...] = ()
        self.quiet_of: Mapping[str, tuple[str, ...]] = {}
        self.taken_s: dict[Queue, float] = {}
        self.is_kafka_reachable: bool | None = None
        self.failure: str | None = None
        self.console_url: str | None = None
        self.notified: Counter[str] = Counter()
        self._deleted: set[Queue] = set()

    def batch(
        self, done: BatchDone, stats: ShardStats, gate: GateState, *, is_new: bool = True
    ) -> None:
        """Take over what a batch did.

        Args:
            is_new: whether no earlier run committed it; a restart may repeat the last batch.
        """
        self.stats, self.gate, self.totals = stats, gate, done.totals
        self.offsets = done.offsets
        self.last_batch, self.last_batch_s = done.batch_id, time.time()
        self.failure = None
        self.batch_seconds.add(done.seconds.get("batch", 0.0))
        for instant_ms, count in done.arrivals:
            self.visible_seconds.add(self.last_batch_s - instant_ms / 1000, count)
        for report in done.reports:
            traffic = report.traffic
            for queue in traffic.queues:
                self.queues.setdefault((report.vhost, queue.name), {})[report.lane] = queue
                self._deleted.discard((report.vhost, queue.name))
            for name in traffic.deleted:
                self.queues.pop((report.vhost, name), None)
                self.taken_s.pop((report.vhost, name), None)
                self._deleted.add((report.vhost, name))
            for name, kinds in traffic.kinds.items():
                if kinds.get("delivered") or kinds.get("consumed"):
                    self.taken_s[report.vhost, name] = self.last_batch_s
            if not is_new:
                continue
            for name, kinds in traffic.kinds.items():
                self.kinds.setdefault((report.vhost, name), Counter()).update(kinds)
            for death in traffic.deaths:
                key = (report.vhost, death.queue, death.reason, death.outcome)
                self.deaths[key] += death.count
        if is_new:
            for fault in done.causes:
                if fault.kind == "quarantined":
                    self.quarantined[fault.place, fault.cause] += fault.count

    def seed(self, before: LedgerTotals, queues: Iterable[tuple[str, QueueOverview]]) -> None:
        """Add what earlier runs did, and the queues that no batch of this run used.

        Args:
            queues: vhost and figures.
        """
        for queue, kinds in before.kinds.items():
            self.kinds.setdefault(queue, Counter()).update(kinds)
        self.deaths.update(before.deaths)
        self.quarantined.update(before.quarantined)
        for vhost, figures in queues:
            key = (vhost, figures.name)
            if key not in self.queues and key not in self._deleted:
                self.queues[key] = {0: figures}
        self.is_seeded = True

    def queue(self, key: Queue) -> list[QueueOverview]:
        """Return a queue's figures on each lane."""
        return list(self.queues.get(key, {}).values())

    def count(self, name: str, vhost: str | None = None) -> int:
        """Return a total of all vhosts, or of one, since the first batch."""
        totals = self.totals
        if totals is None:
            return 0
        if vhost is not None:
            return totals.counts.get(vhost, Counter())[name]
        return sum(counts[name] for counts in list(totals.counts.values()))


JobFamily = Family[JobFigures]
JobScrape = Scrape[JobFigures]
