"""The context of a running task: its batch, and Python's garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from pyspark import TaskContext
from pyspark.sql import SparkSession

NOW_MS = "dlx.nowMs"
"""Local property of a batch's Spark jobs: the batch's timestamp."""


class BatchContext(msgspec.Struct, frozen=True):
    """Identifies a task of a batch.

    Attributes:
        now_ms: the batch's timestamp, epoch milliseconds; the same whenever the batch runs again.
    """

    query_id: str
    batch_id: int
    partition: int
    now_ms: int


def set_batch_time(spark: SparkSession, now_ms: int) -> None:
    """Set the batch's timestamp for the tasks that this thread starts next."""
    spark.sparkContext.setLocalProperty(NOW_MS, str(now_ms))


def batch_context() -> BatchContext:
    """Read the context of the running task from Spark's local properties."""
    context = TaskContext.get()
    assert context is not None, "outside a Spark task"
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    now_ms = context.getLocalProperty(NOW_MS)
    assert query_id is not None, "the task has no query id"
    assert batch_id is not None, "the task has no batch id"
    assert now_ms is not None, "the task has no batch timestamp"
    return BatchContext(query_id, int(batch_id), context.partitionId(), int(now_ms))


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause Python's garbage collector.

    A task creates many objects that all stay alive: each collection is slow and frees nothing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
