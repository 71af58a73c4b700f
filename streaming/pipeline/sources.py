"""The two Kafka sources as data frames, and the columns that the first stage reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

PUBLISHES = "publishes"
COMMANDS = "commands"


COLUMNS = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) as at_ms",
    "key",
    "value",
    "headers",
)
"""SQL of what the first stage reads; it takes the headers apart itself (`kafka_headers.py`).

Nothing of a batch is in it, such as `current_timestamp()`: Spark would write that as a number into
the code that it generates, and so compile it anew for every batch."""


CONSUMER = {
    "fetch.max.wait.ms": "10",
    "max.poll.records": "1000000",
    "max.partition.fetch.bytes": "8388608",
}
"""Spark's Kafka source seeks after each poll: it asks for the partition's first and last offset and
begins anew. So what a fetch brings must be handed over whole, not 500 records of it, and the fetch
at the end of the log that its asking sets off must not hold up the next one for half a second."""


def read_source(
    spark: SparkSession,
    name: str,
    topics: Iterable[str],
    properties: dict[str, str],
    max_rows: int | None,
) -> DataFrame:
    """One source.

    Args:
        name: it is known by in the checkpoint.
        properties: of the JVM client.
        max_rows: most records a batch; None: no limit.
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
    if max_rows is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_rows)
    return reader.load().selectExpr(*COLUMNS)
