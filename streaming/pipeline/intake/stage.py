"""The first stage: Kafka records in, bodies written to `messages`, metadata out (D6, D7).

Runs as `mapInArrow` over Kafka's partitions. Out come rows of (grouping key, blob): one blob a
shard (`packing.py`), and one with the task's report (key FILES_KEY): the data files it wrote.
Records that cannot be understood go to `quarantine`; nothing here raises because of a record.

Replay: file names and contents follow from the batch and the offsets, so a second run finds its
files there and writes the same blobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.intake.records import Intake
from streaming.pipeline.task.context import FILES_KEY, TaskSettings, batch_context
from streaming.pipeline.task.gc_pause import without_collector

OUTPUT = "shard int, blob binary"
_OUTPUT_SCHEMA = pa.schema([("shard", pa.int32()), ("blob", pa.binary())])
_encoder = msgspec.msgpack.Encoder()


class IntakeReport(msgspec.Struct, frozen=True):
    """What a task of the first stage tells the driver.

    Attributes:
        seconds: spent waiting for records (Kafka, the JVM, the way into the worker), understanding
            them, and writing the rest of their bodies.
    """

    files: list[DataFile]
    seconds: dict[str, float]


_reports = msgspec.msgpack.Decoder(IntakeReport)


def run_intake(
    settings: TaskSettings, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The first stage on one task's records; its input columns are those of `sources.py`."""
    started = time.perf_counter()
    understanding = 0.0
    intake = Intake(settings, batch_context())
    with without_collector():
        for batch in batches:
            began = time.perf_counter()
            if batch.num_rows:
                intake.take(batch)
            understanding += time.perf_counter() - began
        read = time.perf_counter()
        rows: list[tuple[int, bytes]] = intake.blobs()
        packed = time.perf_counter()
        files = intake.files
    if files:
        seconds = {
            "read": read - started - understanding,
            "understand": understanding + packed - read,
            "write": time.perf_counter() - packed,
        }
        rows.append((FILES_KEY, _encoder.encode(IntakeReport(files, seconds))))
    if rows:
        yield pa.record_batch(
            [
                pa.array([key for key, _blob in rows], pa.int32()),
                pa.array([blob for _key, blob in rows], pa.binary()),
            ],
            schema=_OUTPUT_SCHEMA,
        )


def decode_report(blob: bytes) -> IntakeReport:
    """The report of a FILES_KEY row."""
    return _reports.decode(blob)
