"""The two Kafka sources as data frames, and the columns that the first stage reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.wire import INBOUND, OURS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

PUBLISHES = "publishes"
COMMANDS = "commands"


_HEADER_BYTES = (
    "cast(coalesce(aggregate(headers, 0L, (total, header) -> total + length(header.key) "
    "+ coalesce(length(header.value), 0)), 0L) as int) as header_bytes"
)
_FOREIGN = f"exists(headers, header -> not startswith(header.key, '{OURS}'))"
_OWN = f"filter(headers, header -> not startswith(header.key, '{OURS}'))"


def read_source(
    spark: SparkSession,
    name: str,
    topics: Iterable[str],
    mapped: Iterable[str],
    properties: dict[str, str],
    max_rows: int | None,
) -> DataFrame:
    """One source.

    Args:
        name: it is known by in the checkpoint.
        mapped: those of the topics whose records know nothing of us.
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
    for key, value in properties.items():
        reader = reader.option(f"kafka.{key}", value)
    if max_rows is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_rows)
    return reader.load().selectExpr(*_columns(mapped))


def _columns(mapped: Iterable[str]) -> list[str]:
    """SQL of the columns: our headers by name, the others as they are.

    The header map is built by the JVM, natively; of repeated names the last counts.
    """
    names = ", ".join(f"'{topic}'" for topic in mapped)
    is_mapped = f"topic in ({names})" if names else "false"
    by_name = "map_from_entries(headers)"
    columns = [
        "topic",
        "partition",
        "offset",
        "unix_millis(timestamp) as at_ms",
        "key",
        "value",
        "headers",
        "unix_millis(current_timestamp()) as now_ms",
        _HEADER_BYTES,
        f"case when {is_mapped} then headers when {_FOREIGN} then {_OWN} end as foreign",
    ]
    columns += [
        f"case when not {is_mapped} and headers is not null then {by_name}['{name}'] end "
        f"as {name.replace('-', '_')}"
        for name in INBOUND
    ]
    return columns
