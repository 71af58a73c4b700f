"""Waiting for a query's end, and saying why it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
from pyspark.errors import StreamingQueryException

from streaming.spark.session import explain_lost_jvm
from topology.errors import DlxError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.topics.gap_watch import LogWatch


class SparkLostError(DlxError):
    """Spark's JVM has ended: there is no query any more, and nothing to stop."""


def wait_for_end(
    query: StreamingQuery, seconds: float, watch: LogWatch | None, spark: SparkSession | None
) -> bool:
    """Wait; True if the query has ended.

    Args:
        watch: knows whether Kafka has lost records.
        spark: the job's own session; None: it is somebody else's.

    Raises:
        DlxError: Kafka has lost records that were to be read, or (SparkLostError) the JVM is gone.
        StreamingQueryException: it ended by another failure.
    """
    if watch is not None and watch.failure is not None:
        raise watch.failure
    try:
        return bool(query.awaitTermination(seconds))  # type: ignore[arg-type] # takes fractions
    except StreamingQueryException:
        lost = None if watch is None else watch.look(planned=False)
        if lost is not None:
            raise lost from None
        raise
    except (Py4JError, OSError):
        gone = None if spark is None else explain_lost_jvm(spark)
        if gone is None:
            raise
        raise SparkLostError(str(gone)) from None
