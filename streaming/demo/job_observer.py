"""Follows a running job: its batches, the events they committed, what waits in Kafka."""

import threading
import time
from collections import deque
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.demo.addresses import Addresses
from streaming.demo.depths import Depths, Move
from streaming.demo.live import Deaths
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from streaming.queries.current_contents import EVENTS, prepare_contents
from streaming.queries.duckdb_tables import Tables

ANSWER_S = 5.0


class Following:
    """What the demo knows of its job.

    `batch_done` is called on the job's thread; everything else by one thread.

    Attributes:
        depths: of the queues, as of the last batch taken in.
        deaths: in this run.
        batches: taken in, in this run.
        batch_s: how long the last one took.
        first_batch_s, last_batch_s: when on the monotonic clock; None before.
        next_deadline_ms: when the broker next wants to be woken, epoch milliseconds.
    """

    def __init__(self, addresses: Addresses) -> None:
        self.depths = Depths()
        self.deaths = Deaths()
        self.batches = 0
        self.batch_s = 0.0
        self.first_batch_s: float | None = None
        self.last_batch_s = time.monotonic()
        self.next_deadline_ms = 0
        self._last_batch_id = -1
        self._arrived: deque[tuple[float, BatchDone]] = deque()
        self.arrived = threading.Event()
        self._inputs = (addresses.publishes, addresses.commands)
        self._partitions: list[TopicPartition] = []
        self._consumer = Consumer({**addresses.kafka, "group.id": "dlx-demo-lag", "log_level": 0})

    def know(self, tables: Tables) -> None:
        """Take over what an earlier run left in the queues; before the job starts."""
        if tables.has(EVENTS):
            query = prepare_contents(tables)
            self.depths.known(
                tables.connection.execute(f"SELECT copy_id, queue, state FROM ({query})").fetchall()  # noqa: S608 (our own query)
            )

    def batch_done(self, done: BatchDone) -> None:
        """Remember a batch, to be looked at on our own thread."""
        self._arrived.append((time.monotonic(), done))
        self.arrived.set()

    def take_in(self, job: Job) -> None:
        """Follow the batches that were committed since."""
        self.arrived.clear()
        while self._arrived:
            at_s, done = self._arrived.popleft()
            if self.first_batch_s is None:
                self.first_batch_s = at_s
            self.last_batch_s = at_s
            self.batches += 1
            self.batch_s = done.seconds["stages"] + done.seconds["commit"]
            self._last_batch_id = done.batch_id
            for report in done.reports:
                self.next_deadline_ms = report.next_deadline_ms
                for file in report.files:
                    if file.table == EVENTS:
                        self._follow(job, file.path)

    def lag_records(self, job: Job) -> int:
        """Records in Kafka that are in no committed batch."""
        if self._last_batch_id < 0:
            return 0
        ends: dict[str, Any] = job.checkpoint.logs.offsets(self._last_batch_id).ends
        try:
            if not self._partitions:
                known = self._consumer.list_topics(timeout=ANSWER_S).topics
                self._partitions = [
                    TopicPartition(topic, partition)
                    for topic in self._inputs
                    for partition in known[topic].partitions
                ]
            return sum(
                max(0, self._end(each) - int(ends.get(each.topic, {}).get(str(each.partition), 0)))
                for each in self._partitions
            )
        except KafkaException:  # away for a moment: asked again at once
            return 0 if not self._partitions else -1

    def close(self) -> None:
        """Give the connection back."""
        self._consumer.close()

    def _end(self, partition: TopicPartition) -> int:
        return int(self._consumer.get_watermark_offsets(partition, timeout=ANSWER_S)[1])

    def _follow(self, job: Job, path: str) -> None:
        folder = job.tables.below(EVENTS).local_path()
        assert folder is not None, "the demo's tables are on this machine"
        table = pq.read_table(
            folder / path, columns=["kind", "queue", "copy_id", "reason"], partitioning=None
        )
        rows = list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
        self.depths.follow(Move(kind, queue, copy_id) for kind, queue, copy_id, _reason in rows)
        for kind, queue, _copy_id, reason in rows:
            if kind == "died":
                self.deaths.add(reason, queue)
