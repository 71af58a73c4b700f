"""Observes a running job: its batches, the events they committed, the queues, the lag in Kafka."""

import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.broker.events import ENDINGS, Kind
from streaming.client.address import Address
from streaming.demo.order_process import INVOICES
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.queries.as_of.contents import EVENTS, prepare_contents
from streaming.queries.duckdb_tables import Tables
from streaming.waiting import Flag

REPLY_TIMEOUT_S: Final = 5.0

_LEAVING: Final = ENDINGS | {Kind.HELD}


class Depth(NamedTuple):
    """Number of messages in one queue."""

    ready: int = 0
    unacked: int = 0


class CopyEvent(NamedTuple):
    """A row of the table `events`; an event about no copy has no `copy_id`."""

    kind: str
    queue: str | None
    copy_id: int | None
    reason: str | None = None


class Depths:
    """Ready and unacked copies by queue; deaths by reason and by queue."""

    def __init__(self) -> None:
        self._ready: dict[int, str] = {}
        self._unacked: dict[int, str] = {}
        self.deaths: Counter[str] = Counter()
        self.died_in: Counter[str] = Counter()

    def load(self, copies: Iterable[tuple[int, str, str]]) -> None:
        """Add copies that are in queues already: copy_id, queue, `ready` or `unacked`."""
        for copy_id, queue, state in copies:
            (self._unacked if state == "unacked" else self._ready)[copy_id] = queue

    def apply(self, events: Iterable[CopyEvent]) -> None:
        """Apply the events of a batch, in their order."""
        for name, queue, copy_id, reason in events:
            if copy_id is None or queue is None:
                continue
            kind = Kind[name.upper()]
            if kind in _LEAVING:
                self._ready.pop(copy_id, None)
                self._unacked.pop(copy_id, None)
            elif kind == Kind.DELIVERED:
                self._ready.pop(copy_id, None)
                self._unacked[copy_id] = queue
            elif kind in {Kind.ENQUEUED, Kind.REQUEUED}:
                self._unacked.pop(copy_id, None)
                self._ready[copy_id] = queue
            if kind == Kind.DIED and reason is not None:
                self.deaths[reason] += 1
                self.died_in[queue] += 1

    def by_queue(self) -> dict[str, Depth]:
        """The depth of every queue that has a message."""
        ready, unacked = Counter(self._ready.values()), Counter(self._unacked.values())
        return {name: Depth(ready[name], unacked[name]) for name in sorted({*ready, *unacked})}


class JobObserver:
    """What the demo knows about its job.

    The job's thread calls `batch_done`; one other thread uses everything else.

    Args:
        logs: of sequenced vhosts.

    Attributes:
        depths: of the queues, and deaths in this run, up to the last batch processed.
        failed_at: invoices that were dead-lettered in this run, by second since the first batch.
        batches, batch_s: number of batches in this run, and duration of the last one.
        first_batch_s, last_batch_s: when they were committed, on the monotonic clock.
        next_deadline_ms: when the broker's next timer is due, epoch milliseconds.
        arrived: set while batches wait to be processed.
    """

    def __init__(self, address: Address, *logs: str) -> None:
        self.depths = Depths()
        self.batches = 0
        self.failed_at: Counter[int] = Counter()
        self.batch_s = 0.0
        self.first_batch_s: float | None = None
        self.last_batch_s = time.monotonic()
        self.next_deadline_ms = 0
        self.arrived = Flag()
        self._last_batch_id = -1
        self._waiting: deque[tuple[float, BatchDone]] = deque()
        self._inputs = (address.publishes, address.commands, *logs)
        self._partitions: list[TopicPartition] = []
        self._consumer = Consumer(
            {**address.properties, "group.id": "dlx-demo-lag", "log_level": 0}
        )

    def load_queues(self, tables: Tables) -> None:
        """Load what an earlier run left in the queues; call it before the job starts."""
        if tables.has(EVENTS):
            query = prepare_contents(tables)
            self.depths.load(
                tables.connection.execute(f"SELECT copy_id, queue, state FROM ({query})").fetchall()  # noqa: S608 (our own query)
            )

    def batch_done(self, done: BatchDone) -> None:
        """Keep a batch until the observing thread processes it."""
        self._waiting.append((time.monotonic(), done))
        self.arrived.set()

    def process_batches(self, job: Job) -> None:
        """Process the batches that were committed since the last call."""
        self.arrived.clear()
        while self._waiting:
            at_s, done = self._waiting.popleft()
            if self.first_batch_s is None:
                self.first_batch_s = at_s
            self.last_batch_s = at_s
            self.batches += 1
            self.batch_s = done.seconds["stages"] + done.seconds["commit"]
            self._last_batch_id = done.batch_id
            failed = self.failed
            for report in done.reports:
                self.next_deadline_ms = report.next_deadline_ms
                for file in report.files:
                    if file.table == EVENTS:
                        self._apply_events(job, file.path)
            if found := self.failed - failed:
                self.failed_at[int(at_s - self.first_batch_s)] += found

    def lag_records(self, job: Job) -> int | None:
        """Number of records in Kafka that no committed batch contains; None if Kafka is away."""
        if self._last_batch_id < 0:
            return 0
        ends: dict[str, Any] = job.checkpoint.logs.offsets(self._last_batch_id).ends
        try:
            if not self._partitions:
                known = self._consumer.list_topics(timeout=REPLY_TIMEOUT_S).topics
                self._partitions = [
                    TopicPartition(topic, partition)
                    for topic in self._inputs
                    for partition in known[topic].partitions
                ]
            return sum(
                max(0, self._end(each) - int(ends.get(each.topic, {}).get(str(each.partition), 0)))
                for each in self._partitions
            )
        except KafkaException:
            return None

    @property
    def failed(self) -> int:
        """Number of invoices that were dead-lettered in this run."""
        return self.depths.died_in[INVOICES]

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _end(self, partition: TopicPartition) -> int:
        return int(self._consumer.get_watermark_offsets(partition, timeout=REPLY_TIMEOUT_S)[1])

    def _apply_events(self, job: Job, path: str) -> None:
        with (job.tables / EVENTS).storage().open(path) as file:
            table = pq.ParquetFile(file).read(columns=list(CopyEvent._fields))
        columns = (table[name].to_pylist() for name in CopyEvent._fields)
        self.depths.apply(map(CopyEvent._make, zip(*columns, strict=True)))
