"""Flow control of one job: the gate, the sources' limits, what clients are told (D9)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from streaming.pipeline.flow.gate import Gate, GateState, SourceLimits, obeys, wait_for_batch
from streaming.pipeline.flow.heartbeat import Heartbeat
from streaming.pipeline.flow.notices import FlowNotices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.config import JobConfig
    from streaming.pipeline.flow.memory import MemoryMarks
    from streaming.pipeline.shard_stats import ShardsSeen

logger = logging.getLogger(__name__)


class FlowControl:
    """Decides after each batch, and lets the next one obey.

    Attributes:
        state: where the gate stands.
    """

    def __init__(self, config: JobConfig, marks: MemoryMarks) -> None:
        self._marks = marks
        self._job = config.job
        self._outbound = config.outbound_topics()
        self._topics = config.topics_of("publishes")
        self._gate = self._make_gate(is_open=True)
        self.state: GateState = self._gate.decide(0, 0)
        self._limits: SourceLimits | None = None
        self._notices: FlowNotices | None = None
        self._heartbeat: Heartbeat | None = None
        self._attached = threading.RLock()  # a batch may run before the query's start returns
        self._late = False  # one did, and what it decided is to be applied yet
        self._stopping = False

    def _make_gate(self, *, is_open: bool) -> Gate:
        job = self._job
        return Gate(self._marks, job.max_batch_rows, max_bytes=job.max_batch_bytes, is_open=is_open)

    def resume(self, detail: Mapping[str, Any], shards: ShardsSeen) -> None:
        """Stand where the last batch row says, as far as the marks still say so."""
        is_open = bool(detail.get("gate", {}).get("open", True))
        self._gate = self._make_gate(is_open=is_open)
        self.decide(shards)

    def tell(
        self, checkpoint: Path, partitions: Mapping[str, int], producer: Mapping[str, str]
    ) -> None:
        """Say what the marks are; from now on publishers are told, and all that the job lives.

        Args:
            checkpoint: folder of the checkpoint.
            partitions: topic -> number of partitions.
            producer: librdkafka properties; may hold secrets.
        """
        for note in self._marks.notes:
            logger.log(note.level, note.text)
        self._notices = FlowNotices(checkpoint, self._marks, self._outbound, partitions, producer)
        self._notices.gate_is(self.state)
        self._heartbeat = Heartbeat(self._notices, self._outbound, producer)

    def first_rows(self, spark: SparkSession, *, importing: bool) -> int:
        """Most publishes in the first batch.

        Args:
            importing: definitions come first; what waits in the inputs is older than they.
        """
        if not obeys(spark):
            return self._job.max_batch_rows  # nobody could let more in later
        return 0 if importing else self.state.max_rows

    def attach(self, spark: SparkSession, query: StreamingQuery) -> None:
        """From now on, the query's sources are limited."""
        with self._attached:
            self._limits = SourceLimits(spark, query)
            if self._late:
                self._limits.set_rows(self._topics, self.state.max_rows)

    def decide(self, shards: ShardsSeen) -> GateState:
        """Where the gate stands now."""
        self.state = self._gate.decide(shards.resident_bytes, shards.mean_bytes)
        return self.state

    def apply(self) -> None:
        """Tell the publishes source how much the next batch may read, and publishers whether."""
        if self._notices is not None:
            self._notices.gate_is(self.state)
        with self._attached:
            self._late = self._limits is None
            if self._limits is not None and not self._stopping:
                self._limits.set_rows(self._topics, self.state.max_rows)

    def end_batches(self, query: StreamingQuery, seconds: float) -> None:
        """Close all sources and wait until the batch that runs has ended."""
        with self._attached:
            self._stopping = True
            if self._limits is not None and query.isActive:
                self._limits.close_all()
        wait_for_batch(query, seconds)

    def stop(self) -> None:
        """Tell clients nothing more."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._notices is not None:
            self._notices.stop()
            self._notices = None
