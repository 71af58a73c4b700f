"""The baseline of `dlx bench pipeline`: Spark's own Kafka source and Delta writer, no broker."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.pipeline.query import CONSUMER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S: Final = 600


class Copied(NamedTuple):
    """Records per second, and between which instants (epoch seconds) they were copied."""

    rate: float
    start_s: float
    end_s: float


def copy_rate(
    spark: SparkSession,
    servers: str,
    topic: str,
    root: Path,
    batch_rows: int,
    warm_up: int,
    *,
    tuned: bool = True,
) -> Copied:
    """Copy a whole topic to a Delta table.

    Args:
        root: an empty folder for checkpoint and table.
        warm_up: how many batches to ignore first.
        tuned: whether the Kafka consumer has the job's settings.
    """
    reader = (
        spark.readStream.format("kafka")
        .name("records")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", batch_rows)
    )
    for key, value in (CONSUMER if tuned else {}).items():
        reader = reader.option(f"kafka.{key}", value)
    query = (
        reader.load()
        .writeStream.format("delta")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "table"))
    )
    deadline_s = time.monotonic() + WAIT_S
    try:
        while not query.awaitTermination(1):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the copy took longer than {WAIT_S} s")
    finally:
        query.stop()

    batches = [each for each in query.recentProgress if each["numInputRows"]][warm_up:]
    start_s = _epoch_s(batches[0]["timestamp"])
    end_s = _epoch_s(batches[-1]["timestamp"]) + batches[-1]["batchDuration"] / 1000
    rows = sum(each["numInputRows"] for each in batches)
    return Copied(rows / (end_s - start_s), start_s, end_s)


def _epoch_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
