"""Settings and jars fit together: a query like the job's runs, and restarts."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.spark.session import SessionConfig, make_session
from streaming.spark.settings import delta_settings, streaming_settings


class Counter(StatefulProcessor):
    """Counts the records of a key, keeping the count as bytes, as the broker keeps its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "value binary")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803 (Spark's name)
    ) -> Iterator[Row]:
        before = int((self.count.get() or (b"0",))[0])
        count = before + sum(1 for _ in rows)
        self.count.update((str(count).encode(),))
        yield Row(shard=key[0], count=count)

    def close(self) -> None:
        pass


class Parent(StatefulProcessor):
    """Says from which process its worker was forked."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803 (Spark's name)
    ) -> Iterator[Row]:
        yield Row(first=key[0], second=os.getppid())

    def close(self) -> None:
        pass


def count_by_key(
    spark: SparkSession, kafka: EmbeddedKafka, topic: str, checkpoint: Path, seen: list[Row]
) -> StreamingQuery:
    """Kafka -> transformWithState (Row mode, timeMode None, Append, RocksDB) -> foreachBatch."""
    counts = (
        spark.readStream.format("kafka")
        .name("publishes")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .selectExpr(
            "cast(cast(key as string) as int) as shard",
            "map_from_entries(headers) as headers",
        )
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=Counter(),
            outputStructType="shard int, count long",
            outputMode="Append",
            timeMode="None",
        )
    )

    def keep(batch: DataFrame, _batch_id: int) -> None:
        seen.extend(batch.collect())

    return (
        counts.writeStream.foreachBatch(keep)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def produce(kafka: EmbeddedKafka, topic: str, keys: list[int]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for key in keys:
        # Kafka allows the same header name twice; the session must as well.
        headers: list[tuple[str, str | bytes | None]] = [("flag", b"a"), ("flag", b"b")]
        producer.produce(topic, key=str(key).encode(), value=b"body", headers=headers)
    assert producer.flush(30) == 0


def run_until_done(query: StreamingQuery) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_a_stateful_query_over_kafka_continues_after_a_restart(
    spark, embedded_kafka, new_topic, tmp_path
):
    topic = new_topic(partitions=2)
    first: list[Row] = []
    second: list[Row] = []

    produce(embedded_kafka, topic, [1, 1, 2])
    run_until_done(count_by_key(spark, embedded_kafka, topic, tmp_path / "checkpoint", first))
    produce(embedded_kafka, topic, [2, 3])
    run_until_done(count_by_key(spark, embedded_kafka, topic, tmp_path / "checkpoint", second))

    assert sorted(first) == [Row(shard=1, count=2), Row(shard=2, count=1)]
    assert sorted(second) == [Row(shard=2, count=2), Row(shard=3, count=1)]
    changes = {path.suffix for path in (tmp_path / "checkpoint" / "state").rglob("[12].*")}
    assert ".changelog" in changes  # a batch uploads what it changed, not the store's files


def test_every_setting_has_a_name_that_spark_knows(spark):
    ours = {**streaming_settings(2, local_checkpoints=True), **delta_settings()}
    rocksdb = "spark.sql.streaming.stateStore.rocksdb."  # read by the store, not declared in SQL
    undeclared = {
        "spark.sql.catalog.spark_catalog",  # any catalog may have a name
        "spark.sql.streaming.checkpointFileManagerClass",  # read by its name alone
    }
    declared = getattr(spark._jvm, "org.apache.spark.sql.internal.SQLConf$")  # noqa: SLF001
    knows = getattr(declared, "MODULE$").containsConfigKey

    unknown = {
        name
        for name in ours
        if name.startswith("spark.sql.")
        and not name.startswith(rocksdb)
        and name not in undeclared
        and not knows(name)
    }

    assert unknown == set()


def test_the_settings_are_in_force(spark):
    wanted = {**streaming_settings(2, local_checkpoints=True), **delta_settings()}

    session = spark.newSession()  # a job of another test may have changed the fixture's
    found = {name: session.conf.get(name) for name in wanted}

    assert found == wanted


def test_a_delta_table_is_written_and_queried_by_path(spark, tmp_path):
    table = tmp_path / "table"

    spark.range(3).write.format("delta").save(str(table))
    answer = spark.sql(f"select sum(id) as total from delta.`{table}`").collect()

    assert answer == [Row(total=3)]


def test_a_second_session_in_one_process_is_refused(spark, tmp_path):
    with pytest.raises(RuntimeError, match="stop_session"):
        make_session(SessionConfig(work_dir=tmp_path, log_dir=tmp_path))


def test_workers_start_with_the_needed_modules_imported(spark):
    def found(batches):
        for _ in batches:
            loaded = "streaming.pipeline.fold" in sys.modules
            yield pa.RecordBatch.from_pydict({"loaded": [loaded]})

    rows = spark.range(1).mapInArrow(found, "loaded boolean").collect()

    assert [row.loaded for row in rows] == [True]


def test_the_workers_of_all_stages_are_forked_from_one_process(spark):
    def parents(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"parent": [os.getppid()]})

    found = (
        spark.range(1)
        .mapInArrow(parents, "parent long")
        .groupBy("parent")
        .transformWithState(
            statefulProcessor=Parent(),
            outputStructType="first long, second long",
            outputMode="Append",
            timeMode="None",
        )
        .collect()
    )

    assert [row.first for row in found] == [row.second for row in found]
    assert len(found) == 1
