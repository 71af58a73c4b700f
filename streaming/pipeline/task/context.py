"""What Spark's tasks are told: plain values that pickle, made by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext

from streaming.broker.config import ShardConfig
from streaming.config.inputs import TopicMapping
from streaming.ledger.storage import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

FILES_KEY = 0
"""Grouping key of rows that carry file descriptions and belong to no shard."""


NOW_MS = "dlx.nowMs"
"""Local property of a batch's jobs: its timestamp."""


class TopicTask(msgspec.Struct, frozen=True):
    """One input topic: its number (D3), whom its records act for, how they are mapped."""

    number: int
    user: str
    mapping: TopicMapping | None = None


class VhostTask(msgspec.Struct, frozen=True):
    """One vhost: the grouping key of each of its lanes."""

    keys: tuple[int, ...]


class OutboundTask(msgspec.Struct, frozen=True):
    """Where outbound records go: (vhost, user) -> topic, and how the producer connects.

    Attributes:
        record_bytes: the largest record that all the topics take.
    """

    topics: dict[tuple[str, str], str]
    producer: dict[str, str | int | float | bool] = {}
    record_bytes: int = 1_000_000


class TaskSettings(msgspec.Struct, frozen=True):
    """Everything the stages of one job need."""

    tables: Place
    topics: dict[str, TopicTask]
    vhosts: dict[str, VhostTask]
    shards: dict[int, ShardConfig]
    outbound: OutboundTask
    max_body_bytes: int
    max_header_bytes: int


class BatchContext(msgspec.Struct, frozen=True):
    """Which task of which batch this is.

    Attributes:
        now_ms: the batch's timestamp as Spark logged it, epoch milliseconds; a batch that is run
            again has the same.
    """

    query_id: str
    batch_id: int
    partition: int
    now_ms: int


def tell_tasks(spark: SparkSession, now_ms: int) -> None:
    """Say when the batch is to the tasks of what this thread runs next."""
    spark.sparkContext.setLocalProperty(NOW_MS, str(now_ms))


def batch_context() -> BatchContext:
    """The batch this task belongs to, from Spark's local properties."""
    context = TaskContext.get()
    assert context is not None, "outside a Spark task"
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    assert query_id is not None, "the task has no query id"
    assert batch_id is not None, "the task has no batch id"
    now_ms = context.getLocalProperty(NOW_MS)
    assert now_ms is not None, "the task does not know when its batch is"
    return BatchContext(query_id, int(batch_id), context.partitionId(), int(now_ms))


def body_file_number(batch_id: int, partition: int, index: int) -> int:
    """The number that stands for a file of `messages` in the state; `body_file_parts` reads it."""
    return (batch_id << 28) | (partition << 12) | index


def body_file_parts(number: int) -> tuple[int, int, int]:
    """Batch id, partition and index of a file of `messages`."""
    return number >> 28, (number >> 12) & 0xFFFF, number & 0xFFF


__all__ = ["BatchContext", "Mapping", "TaskSettings"]
