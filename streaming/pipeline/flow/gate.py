"""The gate: publishes are held back while too much is resident; commands never are (D9).

Spark asks each source before every batch how much it may read. The limit of the publishes source
is set from here, between batches; the next batch obeys it. Between the marks the limit is what
still fits.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.flow.memory import MemoryMarks

logger = logging.getLogger(__name__)

TESTED_SPARK = "4.2."
"""The technique reaches into Spark's query execution; these versions are known to obey."""


UNKNOWN_MEAN_BYTES = 1024
"""What a message is taken to weigh before any was seen."""


class GateState(msgspec.Struct, frozen=True):
    """Where the gate stands and why."""

    resident_bytes: int
    max_rows: int
    cause: Literal["off", "below", "between", "above"]
    open: bool


class Gate:
    """Decides how many publishes the next batch may read.

    Args:
        marks: high and low mark in bytes; None for either when off.
        max_rows: most publishes in a batch when there is room.
        max_bytes: what a batch's bodies may weigh, judged by the recent mean; None: anything.
        is_open: where it stood when the job ended.
    """

    def __init__(
        self,
        marks: MemoryMarks,
        max_rows: int,
        *,
        max_bytes: int | None = None,
        is_open: bool = True,
    ) -> None:
        self._high_bytes = marks.high_bytes
        self._low_bytes = marks.low_bytes
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._open = is_open

    def decide(self, resident_bytes: int, recent_mean_bytes: float) -> GateState:
        """Where the gate stands with so much resident.

        Args:
            recent_mean_bytes: of the messages that arrived lately; what the next ones may weigh.
                0: none has arrived yet.
        """
        most = self._rows_of_a_batch(recent_mean_bytes)
        if self._high_bytes is None or self._low_bytes is None:
            return GateState(resident_bytes, most, "off", open=True)
        if resident_bytes > self._high_bytes:
            self._open = False
        elif resident_bytes < self._low_bytes:
            self._open = True
        if not self._open:
            return GateState(resident_bytes, 0, "above", open=False)
        headroom = max(self._high_bytes - resident_bytes, 0)
        fits = int(headroom / max(recent_mean_bytes or UNKNOWN_MEAN_BYTES, 1.0)) or 1
        cause: Literal["below", "between"] = "below" if fits >= most else "between"
        return GateState(resident_bytes, min(most, fits), cause, open=True)

    def _rows_of_a_batch(self, mean_bytes: float) -> int:
        if self._max_bytes is None:
            return self._max_rows
        return min(self._max_rows, max(1, int(self._max_bytes / max(mean_bytes, 1.0))))


def obeys(spark: SparkSession) -> bool:
    """Whether this Spark is one whose sources are known to obey the gate."""
    return spark.version.startswith(TESTED_SPARK)


class SourceLimits:
    """Sets the read limits of a running query's Kafka sources."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._limit = spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit  # type: ignore[union-attr]  # noqa: SLF001
        self._execution = query._jsq.streamingQuery()  # noqa: SLF001 - there is no public way
        self._works = obeys(spark)
        if not self._works:
            logger.warning(
                "flow control cannot work: it is tested with Spark %sx, and this is %s",
                TESTED_SPARK,
                spark.version,
            )

    def set_rows(self, topics: Iterable[str], max_rows: int) -> None:
        """Let the next batches read at most so many rows from the source of these topics."""
        if not self._works:
            return
        source = self._source(set(topics))
        self._update({source: self._limit.maxRows(max_rows)})

    def close_all(self) -> None:
        """Let no batch read anything more."""
        if self._works:
            self._update({source: self._limit.maxRows(0) for source in self._sources()})

    def _update(self, changes: dict[Any, Any]) -> None:
        limits = self._execution.uniqueSources()
        for source, limit in changes.items():
            limits = limits.updated(source, limit)
        getattr(self._execution, "uniqueSources_$eq")(limits)

    def _sources(self) -> list[Any]:
        found = []
        keys = self._execution.uniqueSources().keysIterator()
        while keys.hasNext():
            found.append(keys.next())
        return found

    def _source(self, topics: set[str]) -> Any:
        matching = [source for source in self._sources() if _topics_of(source.toString()) == topics]
        assert len(matching) == 1, f"{len(matching)} Kafka sources read {sorted(topics)}"
        return matching[0]


def wait_for_batch(query: StreamingQuery, seconds: float) -> None:
    """Wait until the batch that runs has ended; with all sources closed no other follows."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and query.isActive:
        status = query.status
        if not status["isTriggerActive"] and not status["isDataAvailable"]:
            return
        time.sleep(0.02)


def _topics_of(source: str) -> set[str]:
    """`KafkaV2[Subscribe[a, b]]` -> {a, b}."""
    inner = source.partition("Subscribe[")[2].rstrip("]")
    return {topic.strip() for topic in inner.split(",")}
