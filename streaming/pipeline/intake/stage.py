"""The first stage: Kafka records in; bodies written to `messages`; metadata out (D6, D7).

It runs as `mapInArrow` over Kafka's partitions and returns rows of (grouping key, blob): one blob
per shard (`shard_block`), and one with the task's report (key FILES_KEY). Records that cannot be
understood go to `quarantine`; no record makes this stage fail.

Replay: file names and contents follow from the batch and the offsets. A second run finds its files
and returns the same blobs.
"""

import time
from collections.abc import Iterator

import pyarrow as pa

from streaming.pipeline.intake.parsing import Intake
from streaming.pipeline.reports import IntakeReport, encode_report
from streaming.pipeline.shard_block import FILES_KEY
from streaming.pipeline.task import TaskSettings, batch_context, paused_gc

OUTPUT = "shard int, blob binary"
_OUTPUT_SCHEMA = pa.schema([("shard", pa.int32()), ("blob", pa.binary())])


def run_intake(
    settings: TaskSettings, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on one task's records; `query.COLUMNS` lists the input columns."""
    started = time.perf_counter()
    understanding = 0.0
    intake = Intake(settings, batch_context())
    with paused_gc():
        for batch in batches:
            began = time.perf_counter()
            if batch.num_rows:
                intake.add(batch)
            understanding += time.perf_counter() - began
        read = time.perf_counter()
        rows = intake.blobs()
        packed = time.perf_counter()
        files = intake.close()
    if files:
        seconds = {
            "read": read - started - understanding,
            "understand": understanding + packed - read,
            "write": time.perf_counter() - packed,
        }
        rows.append((FILES_KEY, encode_report(IntakeReport(files, seconds, intake.faults()))))
    if rows:
        keys, blobs = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(keys, pa.int32()), pa.array(blobs, pa.binary())], schema=_OUTPUT_SCHEMA
        )
