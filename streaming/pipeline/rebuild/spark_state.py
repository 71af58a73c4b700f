"""Writes the state of a new checkpoint through Spark itself, so that Spark can read it.

    rows (shard, key, value) --batch 0 of a query with the job's operator--> state version 1
    --renamed--> state version n + 1, as after batch n

The query has the grouping key, the state variable and the settings of the job's, but another
source, and a processor that only stores. Its state is a snapshot; only its name has the version.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streaming.pipeline.fold import KEY_SCHEMA, STATE_NAME, VALUE_SCHEMA
from streaming.spark.session import spark_url
from streaming.spark.settings import STATE
from streaming.storage.location import AnyPath

_ROWS_PER_FILE: Final = 4096
_SCHEMA: Final = pa.schema([("shard", pa.int32()), ("key", pa.string()), ("value", pa.binary())])
_SEED_VERSION: Final = 1


class StoringProcessor(StatefulProcessor):
    """Stores each row in the state of its shard."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the state of this task's shards."""
        self._state = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Row]:
        """Store the entries of one shard."""
        count = 0
        for row in rows:
            self._state.updateValue((row["key"],), (bytes(row["value"]),))
            count += 1
        yield Row(shard=key[0], entries=count)

    def close(self) -> None:
        """Do nothing: the state is Spark's."""


def write_entries(folder: Path, entries: Iterable[tuple[int, dict[str, bytes]]]) -> int:
    """Write the entries of each shard as files for `store_entries`; return how many."""
    folder.mkdir(parents=True)
    written = 0
    for shard, values in entries:
        items = sorted(values.items())
        for first in range(0, len(items), _ROWS_PER_FILE):
            part = items[first : first + _ROWS_PER_FILE]
            keys, data = zip(*part, strict=True)
            table = pa.table([[shard] * len(part), keys, data], schema=_SCHEMA)
            pq.write_table(table, folder / f"{shard}-{first}.parquet")
            written += len(part)
    return written


def store_entries(
    spark: SparkSession, source: Path, checkpoint: Path, partitions: int, expected: int
) -> None:
    """Run the one batch of the query that stores the entries."""
    stored: list[int] = []

    def collect(frame: DataFrame, _batch_id: int) -> None:
        stored.extend(row["entries"] for row in frame.collect())

    session = spark.newSession()  # the settings below are for this query
    session.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", "false")  # a snapshot
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    query = (
        session.readStream.name("entries")
        .schema("shard int, key string, value binary")
        .option("maxFilesPerTrigger", str(1 << 30))
        .parquet(source.as_uri())
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=StoringProcessor(),
            outputStructType="shard int, entries long",
            outputMode="Append",
            timeMode="None",
        )
        .writeStream.foreachBatch(collect)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(stored) == expected, f"{sum(stored)} of {expected} entries were stored"


def renumber(
    seed: Path,
    final: AnyPath,
    query_id: str,
    batch_id: int,
    now_ms: int,
    sources: dict[str, dict[str, dict[str, int]]],
) -> None:
    """Turn the seed into the checkpoint of a query after a batch.

    Args:
        final: where the checkpoint will be.
        sources: the name of each source -> topic -> partition -> the next offset.
    """
    shutil.rmtree(seed / "sources", ignore_errors=True)
    for checksum in list(seed.rglob(".*.crc")):
        checksum.unlink()
    (seed / "metadata").write_text(json.dumps({"id": query_id}))
    lines = (seed / "offsets" / "0").read_text().splitlines()
    metadata = {**json.loads(lines[1]), "batchTimestampMs": now_ms, "sourceMetadataInfo": {}}
    ends = [
        f"{name}:{json.dumps(offsets, separators=(',', ':')) if offsets else '-'}"
        for name, offsets in sources.items()
    ]
    text = "\n".join(["v2", json.dumps(metadata, separators=(",", ":")), *ends])
    commit = (seed / "commits" / "0").read_text()
    for folder in ("offsets", "commits"):
        (seed / folder / "0").unlink()
    for number in (max(batch_id - 1, 0), batch_id):  # Spark also reads the last batch but one
        (seed / "offsets" / str(number)).write_text(text)
        (seed / "commits" / str(number)).write_text(commit)
    operator = seed / "state" / "0"
    for snapshot in operator.glob(f"*/{_SEED_VERSION}.zip"):
        _rename(snapshot, f"{batch_id + 1}.zip")
    for described in (operator / "_metadata" / "v2").iterdir():
        text = described.read_text()
        for found, now in zip(_uris(seed), _uris(final), strict=True):
            text = text.replace(found, now)
        described.write_text(text)


def _uris(path: AnyPath) -> tuple[str, str]:
    """How Spark writes a place: Java has two forms for a local one."""
    if isinstance(path, Path):
        return path.as_uri(), f"file:{path}"
    url = spark_url(str(path))
    return url, url


def _rename(path: Path, name: str) -> None:
    if path.name != name:
        path.rename(path.with_name(name))
