"""What a task has: the settings from the driver, which pickle, its batch, the paused collector."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import msgspec
from pyspark import TaskContext
from pyspark.sql import SparkSession

from streaming.broker.config import ShardConfig
from streaming.broker.lanes import PARTITION
from streaming.broker.sequence.log_fold import Terms
from streaming.config import JobConfig
from streaming.config.inputs import TopicMapping
from streaming.config.shards import shard_config, terms_of
from streaming.spark.executor_facts import Facts
from streaming.storage.location import Location

NOW_MS = "dlx.nowMs"
"""Local property of a batch's Spark jobs: the batch's timestamp."""


class TopicTask(msgspec.Struct, frozen=True):
    """One input topic: its number (D3), the user its records act as, and its mapping.

    Attributes:
        log_of: the vhost whose log it is; empty for an input.
        copied: whether fronts copy its records for sequenced vhosts into their logs.
    """

    number: int
    user: str
    mapping: TopicMapping | None = None
    log_of: str = ""
    copied: bool = False


class OutboundTask(msgspec.Struct, frozen=True):
    """Where outbound records go: (vhost, user) -> topic, and the producer's properties.

    Attributes:
        record_bytes: the largest record that all the topics accept.
        dead_letters: the topic that gets a copy of every dead letter; empty: none.
    """

    topics: dict[tuple[str, str], str]
    producer: dict[str, str | int | float | bool] = {}
    record_bytes: int = 1_000_000
    dead_letters: str = ""


class TaskSettings(msgspec.Struct, frozen=True):
    """The settings of all stages of one job.

    Attributes:
        vhosts: the grouping key of each lane, by vhost.
        shards: the broker's configuration by grouping key.
        driver: what workers of a cluster compare themselves with; None: all is on one machine.
        lane_by: what chooses the lane of a publish, by vhost, where it is not the partition.
        terms: of the sequenced vhosts, by grouping key: how their logs are folded.
    """

    tables: Location
    topics: dict[str, TopicTask]
    vhosts: dict[str, tuple[int, ...]]
    shards: dict[int, ShardConfig]
    outbound: OutboundTask
    max_body_bytes: int
    max_header_bytes: int
    driver: Facts | None = None
    lane_by: dict[str, str] = {}
    terms: dict[int, Terms] = {}


def task_settings(
    config: JobConfig,
    tables: Location,
    topic_numbers: Mapping[str, int],
    shard_key: Callable[[str, int], int],
    producer: Mapping[str, str],
    record_bytes: int,
    outbound_from: Mapping[int, int] = MappingProxyType({}),
) -> TaskSettings:
    """Build the settings.

    Args:
        shard_key: returns the grouping key of (vhost, lane).
        outbound_from: the least number of an outbound record, by grouping key; by default 1.
    """
    vhosts: dict[str, tuple[int, ...]] = {}
    shards: dict[int, ShardConfig] = {}
    for name, vhost in config.vhosts.items():
        vhosts[name] = tuple(shard_key(name, lane) for lane in range(vhost.lanes))
        for lane, key in enumerate(vhosts[name]):
            shards[key] = shard_config(config, name, lane, outbound_from.get(key, 1))
    properties: dict[str, str | int | float | bool] = {
        **producer,
        "message.max.bytes": record_bytes,
        "enable.idempotence": True,
        "linger.ms": 5,
        "delivery.report.only.error": True,  # a call of Python for each record would cost 1 us
        "log_level": 0,
    }
    topics = {
        each.topic: TopicTask(
            topic_numbers[each.topic], each.user, each.mapping, copied=each.may_be_copied
        )
        for each in config.inputs
    }
    for name, topic in config.log_topics().items():
        topics[topic] = TopicTask(topic_numbers[topic], "", log_of=name)
    return TaskSettings(
        tables=tables,
        topics=topics,
        vhosts=vhosts,
        shards=shards,
        outbound=OutboundTask(
            config.outbound_topics(),
            properties,
            record_bytes,
            config.outbound.dead_letters.topic or "",
        ),
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
        lane_by={
            name: vhost.lane_by
            for name, vhost in config.vhosts.items()
            if vhost.lanes > 1 and vhost.lane_by != PARTITION
        },
        terms={vhosts[name][0]: terms_of(shards[vhosts[name][0]]) for name in config.log_topics()},
    )


class BatchContext(msgspec.Struct, frozen=True):
    """Identifies a batch, and not the task: what a task writes follows from its records (D18).

    Attributes:
        now_ms: the batch's timestamp, epoch milliseconds; the same whenever the batch runs again.
    """

    query_id: str
    batch_id: int
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
    return BatchContext(query_id, int(batch_id), int(now_ms))


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
