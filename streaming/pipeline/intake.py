"""The first stage: Kafka records in, bodies written to `messages`, metadata out (D6, D7).

Runs as `mapInArrow` over Kafka's partitions. Out come rows of (grouping key, blob): one blob a
shard (`packing.py`), and one with the descriptions of the data files written (key FILES_KEY).
Records that cannot be understood go to `quarantine`; nothing here raises because of a record.

Replay: file names and contents follow from the batch and the offsets, so a second run finds its
files there and writes the same blobs.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from streaming.ledger.files import DataFile
from streaming.pipeline.intake_batch import Intake
from streaming.pipeline.tasks import FILES_KEY, TaskSettings, batch_context

OUTPUT = "shard int, blob binary"
_OUTPUT_SCHEMA = pa.schema([("shard", pa.int32()), ("blob", pa.binary())])
_encoder = msgspec.msgpack.Encoder()
_files = msgspec.msgpack.Decoder(list[DataFile])


def run_intake(
    settings: TaskSettings, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The first stage on one task's records; its input columns are those of `sources.py`."""
    intake = Intake(settings, batch_context())
    for batch in batches:
        if batch.num_rows:
            intake.take(batch)
    rows: list[tuple[int, bytes]] = intake.blobs()
    files = intake.files
    if files:
        rows.append((FILES_KEY, _encoder.encode(files)))
    if rows:
        yield pa.record_batch(
            [
                pa.array([key for key, _blob in rows], pa.int32()),
                pa.array([blob for _key, blob in rows], pa.binary()),
            ],
            schema=_OUTPUT_SCHEMA,
        )


def decode_files(blob: bytes) -> list[DataFile]:
    """The file descriptions of a FILES_KEY row."""
    return _files.decode(blob)
