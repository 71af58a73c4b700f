"""The streaming plan: two sources, the intake, the stateful broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streaming.pipeline.fold import processor
from streaming.pipeline.intake import stage
from streaming.pipeline.sources import COMMANDS, PUBLISHES, read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.config import JobConfig
    from streaming.pipeline.task.context import TaskSettings


def streaming_plan(
    spark: SparkSession,
    config: JobConfig,
    settings: TaskSettings,
    properties: dict[str, str],
    publishes_rows: int,
) -> DataFrame:
    """The data frame whose batches the driver commits: rows of (shard, report).

    Args:
        properties: of the JVM's Kafka clients.
        publishes_rows: most publishes in the first batch; the gate sets those of the others.
    """
    publishes = read_source(
        spark, PUBLISHES, config.topics_of("publishes"), properties, publishes_rows
    )
    limit = config.job.max_batch_rows if config.job.clock == "event" else None
    commands = read_source(spark, COMMANDS, config.topics_of("commands"), properties, limit)
    return (
        publishes.union(commands)
        .mapInArrow(partial(stage.run_intake, settings), stage.OUTPUT)
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=processor.BrokerProcessor(settings),
            outputStructType=processor.OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
    )
