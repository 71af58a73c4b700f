"""The figures of a job, from batches that the real shard folds."""

from typing import Any

from streaming.broker.overview import QueueOverview
from streaming.ledger.batch_detail import BatchDetail, GateState, TrafficSums
from streaming.metrics.collector import JOB
from streaming.metrics.figures import JobFigures
from streaming.pipeline.reports import BatchDone, FaultCount, ShardReport, ShardStats
from streaming.pipeline.traffic import BatchTraffic, Clients, QueueDeaths, TrafficTotals

OPEN = GateState(0, 1_000, "below", open=True)
CLOSED = GateState(10_000, 0, "above", open=False)


def queue(name: str, **numbers: float) -> QueueOverview:
    """The figures of a queue at rest."""
    members: dict[str, Any] = {
        **dict.fromkeys(QueueOverview._fields, 0),
        "name": name,
        "type": "classic",
        "paused": False,
        **numbers,
    }
    return QueueOverview(**members)


def report(traffic: BatchTraffic, *, vhost: str = "/", lane: int = 0) -> ShardReport:
    """The report of a shard's batch."""
    numbers: dict[str, Any] = dict.fromkeys(
        (
            *("records", "publishes", "published_bytes", "events", "resident_messages"),
            *("resident_bytes", "state_bytes"),
            *("now_ms", "next_deadline_ms", "outbound"),
        ),
        0,
    )
    return ShardReport(
        shard=lane,
        vhost=vhost,
        lane=lane,
        files=[],
        deaths={},
        seconds={},
        truncated=[],
        traffic=traffic,
        **numbers,
    )


class Batches:
    """A job's batches, one after the other."""

    def __init__(self, totals: TrafficTotals | None = None) -> None:
        self.totals = totals or TrafficTotals(TrafficSums(), None)
        self.figures = JobFigures("orders")
        self.figures.is_seeded = True
        self.next_id = 0
        self.stats = ShardStats(BatchDetail())

    def run(
        self,
        *reports: ShardReport,
        gate: GateState = OPEN,
        quarantined: int = 0,
        **members: Any,
    ) -> None:
        """Let one batch happen."""
        batch_id, self.next_id = self.next_id, self.next_id + 1
        faults = {"quarantined": quarantined}
        shards = [(one.vhost, one.lane, one.traffic) for one in reports]
        self.totals.add(batch_id, shards, faults, gate_open=gate.open)
        causes = [FaultCount("quarantined", "orders", "null_body", quarantined, "one")]
        done = BatchDone(
            batch_id=batch_id,
            now_ms=0,
            reports=list(reports),
            records=0,
            events=0,
            seconds={"batch": 0.2},
            faults=faults,
            causes=causes if quarantined else [],
            totals=self.totals,
            **members,
        )
        self.stats.update(list(reports))
        self.figures.batch(done, self.stats, gate)

    def values(self, endpoint: str = "aggregated", **options: Any) -> dict[tuple[str, ...], float]:
        """Every series: its name, then its label values in order of the labels' names."""
        return {
            (one.name, *(value for _name, value in sorted(one.labels.items()))): one.value
            for metric in JOB.collect(
                self.figures, endpoint, options.pop("most", 20_000), **options
            )
            for one in metric.samples
        }


def deaths(count: int, reason: str = "rejected", outcome: str = "dead_lettered") -> BatchTraffic:
    """A batch in which messages of the queue `work` died."""
    return BatchTraffic(
        kinds={"work": {"died": count}}, deaths=[QueueDeaths("work", reason, outcome, count)]
    )


def clients(*users: str) -> BatchTraffic:
    """A batch after which these users have a channel each."""
    return BatchTraffic(clients=Clients(len(users), list(users)))
