"""Read limits of a running query's Kafka sources.

Before every batch, Spark asks each source how much it may read. There is no public way to change
these limits while a query runs, so this module replaces them in Spark's query execution. The next
batch obeys them.
"""

import logging
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

TESTED_SPARK = "4.2."
"""Spark versions that are known to obey."""

_POLL_S = 0.02


def is_supported(spark: SparkSession) -> bool:
    """Return whether the sources of this Spark version obey the limits."""
    return spark.version.startswith(TESTED_SPARK)


class SparkReadLimits:
    """Sets the read limits of a running query's Kafka sources."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._limit = spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit  # type: ignore[union-attr]  # noqa: SLF001
        self._execution = query._jsq.streamingQuery()  # noqa: SLF001 - there is no public way
        self._works = is_supported(spark)
        if not self._works:
            logger.warning(
                "flow control cannot throttle publishes: it supports Spark %sx, and this is %s",
                TESTED_SPARK,
                spark.version,
            )

    def set_rows(self, topics: Iterable[str], max_rows: int) -> None:
        """Limit the records that the source of these topics may read per batch."""
        if self._works:
            self._update({self._source(set(topics)): max_rows})

    def close_all(self) -> None:
        """Let no further batch read any record."""
        if self._works:
            self._update(dict.fromkeys(self._sources(), 0))

    def _update(self, rows: dict[Any, int]) -> None:
        limits = self._execution.uniqueSources()
        for source, max_rows in rows.items():
            limits = limits.updated(source, self._limit.maxRows(max_rows))
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


def wait_for_batch(query: StreamingQuery, timeout_s: float) -> None:
    """Wait until the running batch has ended; with all sources closed, no other follows."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and query.isActive:
        status = query.status
        if not status["isTriggerActive"] and not status["isDataAvailable"]:
            return
        time.sleep(_POLL_S)


def _topics_of(source: str) -> set[str]:
    """Return the topics in a source's name: `KafkaV2[Subscribe[a, b]]` -> {a, b}."""
    inner = source.partition("Subscribe[")[2].rstrip("]")
    return {topic.strip() for topic in inner.split(",")}
