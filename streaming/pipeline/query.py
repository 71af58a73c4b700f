"""The streaming query: two Kafka sources, the first stage, the stateful stage."""

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from streaming.config import JobConfig
from streaming.pipeline import fold
from streaming.pipeline.intake import stage
from streaming.pipeline.task import TaskSettings

PUBLISHES = "publishes"
COMMANDS = "commands"
"""Names of the sources in the checkpoint."""

COLUMNS = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) as at_ms",
    "key",
    "value",
    "headers",
)
"""SQL of the first stage's input; the stage itself parses the headers (`intake.header_columns`).

Values of a batch, such as `current_timestamp()`, do not belong here: Spark writes them as literals
into generated code, and would compile it again for every batch."""

CONSUMER = {
    "fetch.max.wait.ms": "10",
    "max.poll.records": "1000000",
    "max.partition.fetch.bytes": "8388608",
}
"""Spark's Kafka source seeks after each poll to ask for the partition's first and last offset. So a
poll must return a whole fetch, not 500 records of it, and a fetch at the end of the log must not
delay the next one by half a second."""


def build_query(
    spark: SparkSession,
    config: JobConfig,
    settings: TaskSettings,
    properties: dict[str, str],
    publishes_rows: int,
    command_rows: int,
) -> DataFrame:
    """Return the data frame whose batches the driver commits: rows of (shard, report).

    The first batch has at most `publishes_rows` publishes and `command_rows` commands; flow control
    limits later ones.
    """
    publishes = read_source(
        spark, PUBLISHES, config.topics_of(PUBLISHES), properties, publishes_rows
    )
    commands = read_source(spark, COMMANDS, config.topics_of(COMMANDS), properties, command_rows)
    return (
        publishes.union(commands)
        .mapInArrow(partial(stage.run_intake, settings), stage.OUTPUT)
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=fold.BrokerProcessor(settings),
            outputStructType=fold.OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
    )


def read_source(
    spark: SparkSession,
    name: str,
    topics: Iterable[str],
    properties: dict[str, str],
    max_rows: int,
) -> DataFrame:
    """Return one Kafka source, known by its name in the checkpoint.

    A task reads all that a batch has of one Kafka partition: no option lets Spark cut it into
    several (`minPartitions`, `maxRecordsPerPartition`). It could cut it elsewhere when the batch
    runs again, and files are named by their first offset (`rows.bounds`).
    """
    reader = (
        spark.readStream.format("kafka")
        .name(name)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
    )
    for key, value in {**CONSUMER, **properties}.items():
        reader = reader.option(f"kafka.{key}", value)
    return reader.option("maxOffsetsPerTrigger", max_rows).load().selectExpr(*COLUMNS)
