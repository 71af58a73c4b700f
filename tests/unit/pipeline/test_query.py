"""The sources of the streaming query."""

from typing import Any

from streaming.pipeline.query import COLUMNS, CONSUMER, PUBLISHES, read_source


class Reader:
    """Keeps what a reader of Spark is told."""

    def __init__(self) -> None:
        self.readStream = self
        self.told: dict[str, Any] = {}

    def format(self, name: str) -> "Reader":
        return self.option("format", name)

    def name(self, name: str) -> "Reader":
        return self.option("name", name)

    def option(self, name: str, value: Any) -> "Reader":
        self.told[name] = value
        return self

    def load(self) -> "Reader":
        return self

    def selectExpr(self, *columns: str) -> "Reader":  # noqa: N802 - Spark's name
        return self.option("columns", columns)


def test_no_option_lets_spark_cut_what_a_batch_has_of_a_partition():
    reader: Any = Reader()

    read_source(reader, PUBLISHES, ["a", "b"], {"minPartitions": "9"}, 7)

    assert reader.told == {
        "format": "kafka",
        "name": PUBLISHES,
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in CONSUMER.items()},
        "kafka.minPartitions": "9",
        "maxOffsetsPerTrigger": 7,
        "columns": COLUMNS,
    }
